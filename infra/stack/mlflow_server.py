"""The MLflow server: runs and registry in PostgreSQL, artifacts in the S3 server, which only it needs to reach.

Basic authentication is on, and it answers to the names of this machine's loopback only.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.metadata import version

import httpx

from infra.stack.errors import StackError, UnreadyError
from infra.stack.part import Part
from infra.stack.ports import HOST
from infra.stack.postgres import Postgres
from infra.stack.processes import Launch
from infra.stack.s3 import MLFLOW, S3
from infra.stack.state import Secrets, State, write_private

USER = "admin"


class MlflowServer(Part):
    name = "mlflow"
    patience = 300.0  # the first start makes two schemas

    def __init__(self, port: int, state: State, secrets: Secrets, postgres: Postgres, s3: S3) -> None:
        super().__init__(port)
        self._settings, self._secrets, self._postgres, self._s3 = state.path / "mlflow.ini", secrets, postgres, s3

    @property
    def title(self) -> str:
        return f"MLflow {version('mlflow')}"

    def environment(self) -> dict[str, str]:
        """What a client needs."""
        return {
            "MLFLOW_TRACKING_URI": self.address,
            "MLFLOW_TRACKING_USERNAME": USER,
            "MLFLOW_TRACKING_PASSWORD": self._secrets.mlflow_admin,
        }

    def prepare(self) -> Launch:
        if importlib.util.find_spec("flask_wtf") is None:
            raise StackError("MLflow's authentication needs Flask-WTF, which is not installed: pip install -e '.[dev]'")
        settings = {
            "default_permission": "READ",
            "database_uri": self._postgres.url("mlflow_auth"),
            "admin_username": USER,
            "admin_password": self._secrets.mlflow_admin,
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
                "MLFLOW_FLASK_SERVER_SECRET_KEY": self._secrets.mlflow_session,
                "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                "MLFLOW_DISABLE_TELEMETRY": "true",
            },
        )

    def check(self) -> None:
        url = f"{self.address}/api/2.0/mlflow/experiments/search?max_results=1"
        known = (USER, self._secrets.mlflow_admin)
        try:
            answer = httpx.get(url, auth=known, timeout=10, trust_env=False)
            anonymous = httpx.get(url, timeout=10, trust_env=False)
        except httpx.HTTPError as error:
            raise UnreadyError(str(error) or type(error).__name__) from error
        if answer.status_code == 401:
            raise StackError(
                "MLflow refuses the password of secrets.json: its users were made with another; bring that file back, "
                "or remove the stack's folder to begin anew"
            )
        if answer.status_code != 200:
            raise UnreadyError(f"it says {answer.status_code}: {answer.text[:200]}")
        if anonymous.status_code != 401:
            raise StackError(f"MLflow lets everybody in: it says {anonymous.status_code} to who has no password")
