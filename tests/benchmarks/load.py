"""Latencies of an HTTP endpoint under a closed loop: clients that send a request after each response."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import cycle
from statistics import quantiles

import aiohttp


async def _closed_loop(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> list[float]:
    latencies: list[float] = []
    next_body = cycle(bodies)
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=max(60.0, 10 * seconds))
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:

        async def request() -> None:
            async with session.post(url, data=next(next_body)) as response:
                answer = await response.read()
                if response.status != 200:
                    raise RuntimeError(f"{url} answered {response.status}: {answer[:300]!r}")

        await asyncio.gather(*(request() for _ in range(clients)))  # opens connections and warms up
        end = time.perf_counter() + seconds

        async def client() -> None:
            while (begin := time.perf_counter()) < end:
                await request()
                latencies.append(time.perf_counter() - begin)

        await asyncio.gather(*(client() for _ in range(clients)))
    return latencies


def latencies(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> dict[str, float]:
    """Posts the bodies in turn: requests per second, percentiles of the latency in ms, and the number of requests."""
    begin = time.perf_counter()
    times = asyncio.run(_closed_loop(url, bodies, clients, seconds))
    return {
        "per_second": round(len(times) / (time.perf_counter() - begin), 2),
        **{f"p{percent}": round(value, 2) for percent, value in percentiles(times, (50, 95, 99)).items()},
        "requests": len(times),
    }


def percentiles(seconds: Sequence[float], percents: Sequence[int]) -> dict[int, float]:
    """Percentiles in ms; 0 without values."""
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [*seconds, 0.0][:1] * 99
    return {percent: 1000 * cuts[percent - 1] for percent in percents}
