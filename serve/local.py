"""The endpoint in one process, without Ray Serve, for `agggen studio` and tests: one planner and generator."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import uvicorn
from fastapi import FastAPI

from agggen.errors import ConfigError
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.target import find_target
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.planner import PlannerReplica
from serve.security import key_ring


class LocalHandle:
    """``LocalHandle(replica).method.remote(...)`` calls an object of this process, as a deployment's handle does."""

    def __init__(self, replica: Any) -> None:
        self._replica = replica

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._replica, name)
        return SimpleNamespace(remote=lambda *args, **options: asyncio.ensure_future(method(*args, **options)))


def local_app(config: ServeConfig, compare: str | None = None) -> FastAPI:
    """The endpoint's application with planner and generator in this process; `compare`: address of a second bundle.

    Raises ConfigError if other machines could reach the endpoint without a key, or both bundles are the same.
    """
    key_ring(config)
    config = find_target(config).pinned(config)
    compared = None
    if compare is not None:
        compared_config = replace(config, bundle=compare, shown_as=None, fingerprint=None)
        compared_config = find_target(compared_config).pinned(compared_config)
        if compared_config.fingerprint == config.fingerprint:
            raise ConfigError(f"{compare} is the served bundle itself: choose another bundle to compare")
        compared = _engine(compared_config)
    return api(_engine(config), config, compared=compared)


def _engine(config: ServeConfig) -> HandleEngine:
    planner, generator = LocalHandle(PlannerReplica(config)), LocalHandle(GeneratorReplica(config))
    return HandleEngine(planner, generator, config)


@contextmanager
def running(app: Any, config: ServeConfig) -> Iterator[str]:
    """Serves `app` in a thread during the block; yields its URL. Raises PortError if the port is taken."""
    listener = config.http.listen()
    settings = uvicorn.Config(app, log_level=logging.WARNING, access_log=False, timeout_graceful_shutdown=5)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    with listener:
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        try:
            yield config.http.url
        finally:
            server.should_exit = True
            thread.join()
