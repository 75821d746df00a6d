"""Ports on 127.0.0.1: whether one is free, and if not, who has it."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import psutil

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server may listen on ``127.0.0.1:port``."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: what just ended is no obstacle
        try:
            one.bind((HOST, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Different ports that nothing listens on now."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def holder(port: int) -> str:
    """Who listens on `port`, such as ``python3 (process 4711)``; "another process" where this user may not know."""
    try:
        listening = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        pid = next((one.pid for one in listening if one.laddr.port == port and one.pid), None)
        return f"{psutil.Process(pid).name()} (process {pid})" if pid else "another process"
    except psutil.Error:
        return "another process"
