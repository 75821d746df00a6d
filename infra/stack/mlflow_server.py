"""The MLflow server: runs and registry in PostgreSQL, artifacts in the S3 server, which only this server reaches.

Basic authentication is on, and only the loopback names of this machine are allowed hosts.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import version

from infra.stack.errors import StackError
from infra.stack.part import HOST, Part, get
from infra.stack.postgres import Postgres
from infra.stack.processes import Launch
from infra.stack.s3 import MLFLOW, S3
from infra.stack.state import State, write_private

USER = "admin"


class MlflowServer(Part):
    name = "mlflow"
    patience = 300.0  # the first start creates two schemas

    def __init__(self, port: int, state: State, secrets: Mapping[str, str], postgres: Postgres, s3: S3) -> None:
        super().__init__(port)
        self.title = f"MLflow {version('mlflow')}"
        self._settings, self._secrets, self._postgres, self._s3 = state.path / "mlflow.ini", secrets, postgres, s3

    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return {
            "MLFLOW_TRACKING_URI": self.address,
            "MLFLOW_TRACKING_USERNAME": USER,
            "MLFLOW_TRACKING_PASSWORD": self._secrets["mlflow_admin"],
        }

    def prepare(self) -> Launch:
        settings = {
            "default_permission": "READ",
            "database_uri": self._postgres.url("mlflow_auth"),
            "admin_username": USER,
            "admin_password": self._secrets["mlflow_admin"],
            "auth_cache_ttl_seconds": "60",  # else each request hashes the password again
        }
        lines = ["[mlflow]", *(f"{name} = {value}" for name, value in settings.items())]
        write_private(self._settings, "\n".join(lines) + "\n")
        command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(self.port), "--workers", "1"]
        command += ["--app-name", "basic-auth", "--serve-artifacts", "--artifacts-destination", f"s3://{MLFLOW}"]
        names = ",".join(f"{name}{port}" for name in ("localhost", HOST) for port in ("", f":{self.port}"))
        return Launch(
            [*command, "--allowed-hosts", names],
            {
                **self._s3.environment(),
                "MLFLOW_BACKEND_STORE_URI": self._postgres.url("mlflow"),
                "MLFLOW_AUTH_CONFIG_PATH": str(self._settings),
                "MLFLOW_FLASK_SERVER_SECRET_KEY": self._secrets["mlflow_session"],
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "MLFLOW_DISABLE_TELEMETRY": "true",
            },
        )

    def check(self) -> None:
        url = f"{self.address}/api/2.0/mlflow/experiments/search?max_results=1"
        account = (USER, self._secrets["mlflow_admin"])
        if get(url, status=None, auth=account).status_code == 401:
            raise StackError(
                "MLflow refuses the password of stack.json: its users were created with another; restore that file, or "
                "remove the stack's folder to start over"
            )
        get(url, auth=account)
        anonymous = get(url, status=None).status_code
        if anonymous != 401:
            raise StackError(f"MLflow asks for no password: status {anonymous} without one")
