"""Fixtures for tests of the endpoint: a tiny bundle of the corpus `elements`, and an engine in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agggen.bundle import load_bundle
from agggen.corpora.elements import elements_records
from agggen.facts.config import SegmenterConfig
from agggen.generation.generator import Generator
from agggen_platform.serving.config import BatchConfig, HttpConfig, ServeConfig
from serve.api import api
from serve.generator import GeneratorReplica
from serve.handles import HandleEngine
from serve.local import LocalHandle, running
from serve.planner import PlannerReplica
from tests.processes import free_ports
from tests.tiny_models import save_tiny_bundle
from tests.unit.serve.http_calls import CONFIG, Ask, StubEngine


def save_tiny_model(path: Path, seed: int = 5) -> Path:
    """Saves a bundle with random weights, predicates of `elements` and groups of at most 3."""
    return save_tiny_bundle(
        path,
        list(elements_records("dev")),
        seed,
        metrics={"joint.dev_loss": 1.5},
        sources={"toy/train": "ab12"},
        facts="corpus",
        segmenter=SegmenterConfig(source="clauses"),
    )


@pytest.fixture(scope="session")
def library(bundle: Path) -> Generator:
    return load_bundle(bundle).generator()


@pytest.fixture(scope="session")
def serve_config(bundle: Path) -> ServeConfig:
    """The configuration of an endpoint of the tiny bundle, without batching delay."""
    return ServeConfig(str(bundle), batch=BatchConfig(wait_ms=0))


@pytest.fixture(scope="session")
def planner(serve_config: ServeConfig) -> PlannerReplica:
    return PlannerReplica(serve_config)


@pytest.fixture(scope="session")
def generator(serve_config: ServeConfig) -> GeneratorReplica:
    return GeneratorReplica(serve_config)


@pytest.fixture
def engine(planner: PlannerReplica, generator: GeneratorReplica, serve_config: ServeConfig) -> HandleEngine:
    return HandleEngine(LocalHandle(planner), LocalHandle(generator), serve_config)


@pytest.fixture
def ask(engine: HandleEngine, serve_config: ServeConfig) -> Ask:
    return Ask(api(engine, serve_config))


@pytest.fixture
def endpoint(engine: HandleEngine) -> Iterator[str]:
    config = ServeConfig("bundle", http=HttpConfig(port=free_ports(1)[0]))
    with running(api(engine, config), config) as url:
        yield url


@pytest.fixture
def stub() -> StubEngine:
    return StubEngine()


@pytest.fixture
def ask_stub(stub: StubEngine) -> Ask:
    return Ask(api(stub, CONFIG))
