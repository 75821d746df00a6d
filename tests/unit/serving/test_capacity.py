"""Resources of an endpoint, compared with those of a cluster."""

import os
from contextlib import nullcontext
from dataclasses import replace

import pytest

from agggen.config import load_config
from agggen.errors import ConfigError
from agggen_platform.serving.capacity import (
    check_fits,
    local_cpus,
    maximum_resources,
    minimum_resources,
    with_max_replicas,
)
from agggen_platform.serving.config import ServeConfig
from agggen_platform.serving.errors import CapacityError


def config(*settings: str) -> ServeConfig:
    return load_config(ServeConfig, None, ["bundle=b", *settings])


@pytest.mark.parametrize(
    ("settings", "smallest", "largest"),
    [
        (("generator.max_replicas=3", "generator.cpus=2", "generator.gpus=0.5"), (3.0, 0.5), (7.0, 1.5)),
        (("generator.min_replicas=0",), (2.0, 0.0), (2.0, 0.0)),  # scaled to zero, it still needs room for a generator
    ],
)
def test_the_smallest_and_the_largest_endpoint(
    settings: tuple[str, ...], smallest: tuple[float, float], largest: tuple[float, float]
) -> None:
    for needs, expected in ((minimum_resources, smallest), (maximum_resources, largest)):
        assert (needs(config(*settings)).cpus, needs(config(*settings)).gpus) == expected


def test_one_setting_of_a_role_keeps_its_other_defaults() -> None:
    """Regression: `ingress.max_replicas=4` reset the other defaults of ingress and planner."""
    chosen, usual = config("ingress.max_replicas=4", "planner.min_replicas=2", "planner.max_replicas=4"), config()
    assert chosen.ingress == replace(usual.ingress, max_replicas=4)
    assert chosen.planner == replace(usual.planner, min_replicas=2, max_replicas=4)


@pytest.mark.parametrize("name", ["ingress", "planner"])
def test_deployments_that_answer_probes_do_not_scale_to_zero(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name}\.min_replicas must be at least 1"):
        config(f"{name}.min_replicas=0")


@pytest.mark.parametrize(
    ("settings", "nodes", "reason"),
    [
        ((), [{"CPU": 2.0}], None),
        ((), [{"CPU": 1.0}, {"CPU": 1.0}], None),
        ((), [{"CPU": 1.5}], "the endpoint needs 2 CPUs, but the cluster has 1.5 CPUs"),
        (("generator.cpus=4",), [{"CPU": 3.0}, {"CPU": 3.0}], "a replica of the generator needs 4 CPUs"),
        (("generator.gpus=1",), [{"CPU": 64.0}], "needs 1 CPUs and 1 GPUs, but the largest node"),
        (("generator.gpus=1",), [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 1.0}], None),
        (("generator.gpus=1", "generator.min_replicas=2", "generator.max_replicas=2"), [{"CPU": 9.0, "GPU": 1.0}],
         "the cluster has 9 CPUs and 1 GPUs"),
    ],
)  # fmt: skip
def test_an_endpoint_that_does_not_fit_is_refused(
    settings: tuple[str, ...], nodes: list[dict[str, float]], reason: str | None
) -> None:
    with pytest.raises(CapacityError, match=reason) if reason else nullcontext():
        check_fits(config(*settings), nodes)


NODE = {"CPU": 8.0}


@pytest.mark.parametrize(
    ("settings", "nodes", "replicas"),  # maxima of ingress, planner, generator
    [
        ((), [], (1, 1, 1)),
        ((), [{"CPU": 2.0}], (1, 1, 1)),
        ((), [NODE], (1, 1, 5)),  # an update needs one additional replica each
        (("update=replace",), [NODE], (1, 1, 7)),
        ((), [NODE] * 2, (2, 2, 12)),  # one ingress and planner for every eight generators
        (("generator.cpus=5",), [NODE] * 4, (1, 1, 3)),  # one generator per node
        (("generator.gpus=1",), [NODE | {"GPU": 4.0}], (1, 1, 3)),
        (("generator.min_replicas=9",), [NODE], (2, 2, 9)),
        (("generator.max_replicas=2", "planner.max_replicas=3"), [NODE] * 9, (1, 3, 2)),
        (("generator.max_replicas=20",), [NODE] * 9, (3, 3, 20)),
    ],
)
def test_unset_maxima_follow_the_room_of_the_cluster(
    settings: tuple[str, ...], nodes: list[dict[str, float]], replicas: tuple[int, int, int]
) -> None:
    chosen = with_max_replicas(config(*settings), nodes)
    assert (chosen.ingress.max_replicas, chosen.planner.max_replicas, chosen.generator.max_replicas) == replicas


def test_a_local_cluster_has_room_for_all_replicas_twice() -> None:
    assert local_cpus(config("generator.max_replicas=100")) == 202
    with pytest.raises(CapacityError, match="this machine has"):
        local_cpus(config(f"generator.cpus={(os.cpu_count() or 1) + 2}"))
