"""Load on an HTTP endpoint, and what answered it: clients that ask again as soon as they are answered (closed loop)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from statistics import quantiles

import aiohttp


async def _closed_loop(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> list[float]:
    took: list[float] = []
    place = 0
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=max(60.0, 10 * seconds))
    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as session:

        async def ask() -> None:
            nonlocal place
            body, place = bodies[place % len(bodies)], place + 1
            async with session.post(url, data=body) as response:
                answer = await response.read()
                if response.status != 200:
                    raise RuntimeError(f"{url} answered {response.status}: {answer[:300]!r}")

        await asyncio.gather(*(ask() for _ in range(clients)))  # opens connections and warms up
        end = time.perf_counter() + seconds

        async def client() -> None:
            while (begin := time.perf_counter()) < end:
                await ask()
                took.append(time.perf_counter() - begin)

        await asyncio.gather(*(client() for _ in range(clients)))
    return took


def latencies(url: str, bodies: Sequence[bytes], clients: int, seconds: float) -> dict[str, float]:
    """Posts the bodies in turn by several clients for a time: requests a second, percentiles in ms, their number."""
    begin = time.perf_counter()
    took = asyncio.run(_closed_loop(url, bodies, clients, seconds))
    cuts = quantiles(took, n=100) if len(took) > 1 else [took[0]] * 99
    return {
        "per_second": round(len(took) / (time.perf_counter() - begin), 2),
        "p50": round(1000 * cuts[49], 2),
        "p95": round(1000 * cuts[94], 2),
        "p99": round(1000 * cuts[98], 2),
        "requests": len(took),
    }
