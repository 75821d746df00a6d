/* Preloaded into a process, it puts its wall clock five minutes ahead. Debian's libfaketime also moves waits by the
   monotonic clock, which heartbeats use, and no node's clock does that. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = syscall(SYS_clock_gettime, clock, now);
    if (!status && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += 300;
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *copy) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (copy) *copy = exact.tv_sec;
    return exact.tv_sec;
}
