"""The dashboard of the endpoint."""

from __future__ import annotations

from infra.monitoring.panels.board import Board, Panel, machines

_APP = 'application="agggen"'


def _quantile(share: float, metric: str, by: str, labels: str = "") -> str:
    return f"histogram_quantile({share}, sum by ({by}, le) (rate({metric}_bucket{labels}[$__rate_interval])))"


ENDPOINT = Board(
    "endpoint",
    "endpoint",
    "The endpoint on Ray Serve: what callers get, what records go through, replicas and nodes.",
    3,
    [],
    [
        Panel(
            "Requests that fail",
            "5xx of all requests in the last hour, but probes and scrapes. The level is 0.5 % in 30 days.",
            "percentunit",
            [("agggen:endpoint_error_ratio:rate1h", "1 h"), ("agggen:endpoint_error_ratio:rate3d", "3 d")],
            kind="stat",
            width=6,
            red=0.005,
        ),
        Panel(
            "Slower than 10 s",
            "Of interactive requests in the last hour (no streams). The level is 1 %.",
            "percentunit",
            [("agggen:endpoint_slow_ratio:rate1h", "1 h")],
            kind="stat",
            width=6,
            red=0.01,
        ),
        Panel(
            "Records that fail",
            "Without an answer for reasons not their own. The level is 1 %.",
            "percentunit",
            [("agggen:endpoint_record_failure_ratio:rate10m", "10 min")],
            kind="stat",
            width=6,
            red=0.01,
        ),
        Panel(
            "Bundle",
            "What ingress replicas say is served; two while one replaces the other.",
            "short",
            [("count by (fingerprint, address) (last_over_time(agggen_bundle_info[10m]))", "{{address}}")],
            kind="stat",
            width=6,
        ),
        "What callers get",
        Panel(
            "Requests by status",
            "As Serve's proxies count them, replicas that died included; 500 here and not in the ingress's log is one.",
            "reqps",
            [("sum by (status_code) (agggen:endpoint_requests:rate5m)", "{{status_code}}")],
            stacked=True,
        ),
        Panel(
            "Requests by address",
            "All statuses.",
            "reqps",
            [("sum by (route) (agggen:endpoint_requests:rate5m)", "{{route}}")],
            stacked=True,
        ),
        Panel(
            "Failures by address",
            "Requests with 5xx.",
            "reqps",
            [
                (
                    'sum by (route, status_code) (agggen:endpoint_requests:rate5m{status_code=~"5.."})',
                    "{{route}} {{status_code}}",
                )
            ],
        ),
        Panel(
            "Time of interactive requests",
            "From proxy to the end of the answer, streams left out.",
            "ms",
            [
                (f"histogram_quantile({q}, sum by (le) (agggen:endpoint_latency_ms_bucket:rate5m))", name)
                for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
            ],
        ),
        Panel(
            "Time by address, p95",
            "As the ingress measures it: without what waits in the proxy.",
            "s",
            [
                (
                    "histogram_quantile(0.95, sum by (route, le) "
                    "(max by (replica, route, le) (rate(agggen_request_seconds_bucket[10m]))))",
                    "{{route}}",
                )
            ],
        ),
        Panel(
            "Requests inside",
            "That wait or are worked on in ingress replicas; each takes limits.queue of them (64).",
            "short",
            [
                (
                    "sum by (replica) (max by (replica) (last_over_time(agggen_requests_in_flight[1m])))",
                    "{{replica}}",
                ),
                (f"sum by (deployment) (ray_serve_deployment_queued_queries{{{_APP}}})", "waiting for {{deployment}}"),
            ],
        ),
        "Records",
        Panel(
            "Records by outcome",
            "Answered (ok), the client's to mend (record, plan, text, unfulfilled), or failed. Streams count late.",
            "short",
            [("sum by (outcome) (agggen:endpoint_records:rate10m)", "{{outcome}}")],
            stacked=True,
        ),
        Panel(
            "Refused by guard",
            "key: no valid key; queue: too many at once; rate, records: a key's share; size, pace, browser, head.",
            "reqps",
            [("agggen:endpoint_refused:rate10m", "{{guard}}")],
        ),
        Panel(
            "Answers from memory",
            "Repeated requests with an Idempotency-Key.",
            "reqps",
            [("sum(max by (replica) (rate(agggen_replayed_total[10m])))", "replayed")],
        ),
        Panel(
            "Records worked on a second",
            "By planners and generators: the throughput, of streams too while they run.",
            "short",
            [("sum by (deployment, work) (agggen:worked_records:rate5m)", "{{deployment}} {{work}}")],
        ),
        Panel(
            "Records that wait",
            "In a replica when a batch begins; no line while nothing is done. batch.queue (1,024) is the most.",
            "short",
            [("max by (deployment, replica) (ray_agggen_queue_records)", "{{deployment}} {{replica}}")],
        ),
        Panel(
            "Wait for a batch, p95",
            "Of the oldest record of a batch. Seconds here: add replicas.",
            "s",
            [(_quantile(0.95, "ray_agggen_batch_wait_seconds", "deployment, work"), "{{deployment}} {{work}}")],
            red=10,
        ),
        Panel(
            "Time of a batch, p95",
            "Of plan search, writing and alignment.",
            "s",
            [(_quantile(0.95, "ray_agggen_batch_work_seconds", "deployment, work"), "{{deployment}} {{work}}")],
        ),
        Panel(
            "Records of a batch, median",
            "Worked on together. One, under load: they do not fit together, or batch.records is small.",
            "short",
            [(_quantile(0.5, "ray_agggen_batch_records", "deployment, work"), "{{deployment}} {{work}}")],
        ),
        Panel(
            "Seconds a record",
            "Work of a replica: batches' time by their records. It is what hardware and settings of the search decide.",
            "s",
            [
                (
                    "sum by (deployment, work) (rate(ray_agggen_worked_seconds_total[$__rate_interval]))"
                    " / sum by (deployment, work) (rate(ray_agggen_worked_records_total[$__rate_interval]))",
                    "{{deployment}} {{work}}",
                )
            ],
        ),
        "Replicas",
        Panel(
            "Replicas",
            "That are healthy.",
            "short",
            [
                (
                    f"sum by (deployment) (last_over_time(ray_serve_deployment_replica_healthy{{{_APP}}}[1m]))",
                    "{{deployment}}",
                )
            ],
        ),
        Panel(
            "Replicas started in an hour",
            "By the autoscaler, a rollout, or because one died.",
            "short",
            [("agggen:replica_starts:1h", "{{deployment}}")],
            red=10,
        ),
        Panel(
            "Start of a replica",
            "p95 since Serve runs, from creation until the bundle is loaded and tested; 4 min is the most it tells.",
            "ms",
            [
                (
                    "histogram_quantile(0.95, sum by (deployment, le) "
                    f"(ray_serve_replica_startup_latency_ms_bucket{{{_APP}}}))",
                    "{{deployment}}",
                )
            ],
            red=240_000,
        ),
        Panel(
            "Application",
            "Serve's word for it: 6 running, 5 deploying, 2 unhealthy, 1 failed.",
            "short",
            [(f"max(last_over_time(ray_serve_application_status{{{_APP}}}[1m]))", "status")],
            kind="stat",
        ),
        Panel(
            "Deployments",
            "6 healthy, 5 downscaling, 4 upscaling, 3 updating, 2 unhealthy, 1 failed.",
            "short",
            [
                (
                    f"max by (deployment) (last_over_time(ray_serve_deployment_status{{{_APP}}}[1m]))",
                    "{{deployment}}",
                )
            ],
            kind="stat",
        ),
        Panel(
            "Proxies",
            "2 healthy, 3 unhealthy, 4 and 5 going; one that is dead or starts is missing.",
            "short",
            [("max by (node_ip_address) (last_over_time(ray_serve_proxy_status[1m]))", "{{node_ip_address}}")],
            kind="stat",
        ),
        Panel(
            "Requests in replicas",
            "That a replica works on; the autoscaler keeps it near target_ongoing_requests.",
            "short",
            [
                (
                    f"sum by (deployment, replica) (ray_serve_replica_processing_queries{{{_APP}}})",
                    "{{deployment}} {{replica}}",
                )
            ],
        ),
        *machines("replicas"),
    ],
)
