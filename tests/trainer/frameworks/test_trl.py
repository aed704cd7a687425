"""Trainers of TRL, as they are: each is trained, killed within an epoch, and ends with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.releases import needs
from tests.trainer.killing import kill_at_call

from trainwright.trainer.base import releases
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.results import Export

pytestmark = [
    pytest.mark.requirement("TRAIN-7"), pytest.mark.slow, pytest.mark.forks, needs(releases.TRAINER),
    pytest.mark.filterwarnings("ignore"),  # TRL's own, about its library
]  # fmt: skip

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "resume"
KEYS = ("train/loss", "train/gradient_norm", "train/learning_rate", "validation/loss", "epoch")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Import the libraries once, and not again in every fork."""
    import datasets
    import peft
    import trl

    assert datasets
    assert peft
    assert all((trl.SFTTrainer, trl.RewardTrainer, trl.KTOTrainer, trl.RLOOTrainer))


def values_of(name: str) -> dict[str, Any]:
    """Return the configuration of a run of one of them."""
    return {
        "trainer": {"use": f"own_trainers.py:make_{name}"},
        "logging": {"every_n_steps": 3, "tensorboard": False},
    }


def ended(folder: Path, make_run: Any, work: Any, name: str, kill_at: int | None = None) -> RunDirectory:
    """Run one to its end, killed once before where that is asked for."""
    run: RunDirectory = make_run(folder / name, values_of(name), code_root=str(BENCHMARKS))
    if kill_at is not None:
        assert work(run, kill_at_call(Recorder.step, kill_at)) == -9
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.fixture(scope="module")
def lora(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> RunDirectory:
    return ended(tmp_path_factory.mktemp("whole"), make_run, work, "lora")


PER_EPOCH = {"reward": 5, "kto": 5, "rloo": 10, "lora": 5}


@pytest.mark.long
@pytest.mark.parametrize("name", PER_EPOCH)
def test_it_runs_as_it_is_and_a_kill_changes_nothing(  # noqa: PLR0917 - fixtures
    name: str, tmp_path: Path, lora: RunDirectory, make_run: Any, work: Any, recorded: Any
) -> None:
    whole = lora if name == "lora" else ended(tmp_path / "whole", make_run, work, name)
    killed = ended(tmp_path / "killed", make_run, work, name, kill_at=10)
    (resumed,) = [event.data["step"] for event in killed.events() if event.kind == "resumed"]
    assert resumed == 8
    assert resumed % PER_EPOCH[name], "within an epoch"
    assert recorded(killed, *KEYS) == recorded(whole, *KEYS)
    ours, theirs = killed.evidence("summary"), whole.evidence("summary")
    assert (ours["weights_digest"], ours["best"]) == (theirs["weights_digest"], theirs["best"])
    assert ours["steps"] >= 10
    for one, other in zip(list_checkpoints(killed), list_checkpoints(whole), strict=True):
        assert verify_checkpoint(one.path) == []
        assert (one.path / "model.safetensors").read_bytes() == (other.path / "model.safetensors").read_bytes()


@pytest.mark.long
def test_the_adapter_is_exported_alone_and_merged_with_the_tokenizer(
    lora: RunDirectory, tmp_path: Path, make_run: Any, work: Any
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run = make_run(
        tmp_path / "export", values_of("lora"), code_root=str(BENCHMARKS), kind=RunKind.EXPORT,
        source_run=str(lora.path),
    )  # fmt: skip
    assert work(run) == 0, run.log.read_text()
    evidence, folder = run.part(Export), run.artifacts / "final_model"
    assert evidence.adapter is not None
    assert (evidence.adapter.kind, evidence.adapter.is_sound) == ("lora", True)
    assert evidence.library is not None
    merged = AutoModelForCausalLM.from_pretrained(folder / "transformers")
    assert AutoTokenizer.from_pretrained(folder / "transformers").decode([3, 4]) in {"ab", "a b"}
    base = AutoModelForCausalLM.from_config(merged.config)
    weights = load_file(folder / "model.safetensors")
    inner = "base_model.model."
    plain = {name.removeprefix(inner).replace(".base_layer", ""): value for name, value in weights.items()}
    base.load_state_dict({name: value for name, value in plain.items() if "lora_" not in name}, strict=False)
    adapted = PeftModel.from_pretrained(base, folder / "adapter").eval()
    ids = torch.arange(3, 11)[None]
    assert torch.allclose(merged.eval()(ids).logits, adapted(ids).logits, atol=1e-5)
