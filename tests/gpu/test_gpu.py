"""Training and generation on a GPU; skipped without one. Tests without GPU: tests/unit/test_training_device.py."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agggen.bundle import load_bundle
from agggen.datasets import load_dataset
from agggen.training.loop import Stage
from tests.tiny_models import save_tiny_bundle
from tests.unit.model.enumeration import tiny_model
from tests.unit.toy_training import ALL, CONFIG, STAGES, Log, fresh_model, trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that this torch build can use")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_losses_are_those_of_a_cpu(stage: Stage, precision: str) -> None:
    losses = []
    for device in ("cpu", "cuda"):
        log = Log()
        model = fresh_model(config=replace(fresh_model().config, dropout=0.0, predicate_dropout=0.0)).to(device)
        trainer(stage, model=model, callbacks=[log], precision=precision).run()
        losses.append(log.losses + log.dev_losses)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3 if precision == "float32" else 0.1)


@pytest.mark.parametrize("stage", STAGES)
def test_an_update_does_not_wait_for_the_gpu(stage: Stage) -> None:
    gpu_trainer = trainer(stage, replace(CONFIG, log_every=1000), model=tiny_model().to("cuda"))
    for update in gpu_trainer._updates([ALL, ALL]):
        gpu_trainer._update(update)
        torch.cuda.set_sync_debug_mode("error")
        try:
            gpu_trainer._update(update)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_plans_and_texts_are_those_of_a_cpu(tmp_path: Path) -> None:
    records = load_dataset("elements").split("dev")[:20]
    bundle = load_bundle(save_tiny_bundle(tmp_path / "bundle", records))
    on_cpu, on_gpu = (bundle.generator(device) for device in ("cpu", "cuda"))
    for cpu_texts, gpu_texts in zip(on_cpu.generate(records), on_gpu.generate(records), strict=True):
        assert (gpu_texts[0].plan, gpu_texts[0].text) == (cpu_texts[0].plan, cpu_texts[0].text)
        assert gpu_texts[0].text_log_probability == pytest.approx(cpu_texts[0].text_log_probability, abs=1e-2)
