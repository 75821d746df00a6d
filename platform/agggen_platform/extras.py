"""Optional packages, and the pip extra of agggen that installs each."""

from importlib.util import find_spec

from agggen.errors import ConfigError

EXTRAS = {
    **dict.fromkeys(("ray", "mlflow", "sqlalchemy", "optuna", "boto3", "botocore", "psutil"), "ray"),
    **dict.fromkeys(("httpx", "fastapi", "starlette", "uvicorn"), "serve"),
}


def is_installed(package: str) -> bool:
    return find_spec(package) is not None


def require(*packages: str) -> None:
    """Raises ConfigError if a package is not installed; the message names the extra that installs it."""
    for package in packages:
        if not is_installed(package):
            raise missing(package)


def missing(package: str) -> ConfigError:
    """The error to raise if a package of `EXTRAS` is not installed."""
    return ConfigError(f"{package} is not installed: pip install 'agggen[{EXTRAS[package]}]'")
