"""Releases of libraries: below the floor nothing runs, above it what a release lacks is refused in words."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainwright.server.commands.doctor import examine_floors
from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.releases import LEAST, Newer
from trainwright.trainer.config import parse_config
from trainwright.trainer.jobs.export import exporters
from trainwright.trainer.run import RunState
from trainwright.trainer.strategies import require_fsdp2

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
NEWER = {name: value for name, value in vars(releases).items() if isinstance(value, Newer)}

pytestmark = pytest.mark.requirement("ENV-2")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder in which torch is installed in a release below the floor, as its metadata says."""
    folder = tmp_path / "site" / "torch-2.3.1.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.3.1+cu121\n")
    return folder.parent


def test_the_page_names_the_floors() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package, least in LEAST.items():
        assert f"{package} {least}" in PAGE
    assert project["requires-python"] == ">=3.11"
    assert "Python 3.11" in PAGE


def test_the_page_names_every_part_that_needs_more() -> None:
    needed = {f"{each.package} {each.least}" for each in NEWER.values()}
    table = PAGE.partition("| part | needs |")[2]
    assert needed == set(re.findall(r"^\| [^|]+ \| (\w+ [\d.]+) \|", table, flags=re.MULTILINE))


def test_the_doctor_names_the_release_the_rule_and_what_to_run(old: Path) -> None:
    assert examine_floors() == []
    (finding,) = examine_floors([str(old)])
    assert (finding.name, finding.status) == ("release of torch", "fail")
    assert finding.found == "torch 2.3.1+cu121 is installed, and Trainwright needs torch 2.4 or newer"
    assert 'pip install --upgrade "torch>=2.4"' in finding.remedy


@pytest.mark.forks
@pytest.mark.slow
def test_a_worker_below_the_floor_fails_in_one_sentence(
    old: Path, tmp_path: Path, make_run: Any, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", {"model": {"use": "mlp"}, "data": {"use": "iris"}})
    monkeypatch.syspath_prepend(str(old))
    assert work(run) == 1
    status = run.status()
    assert (status.state, status.failure.category) == (RunState.FAILED, "configuration")
    assert status.failure.message == "torch 2.3.1+cu121 is installed, and Trainwright needs torch 2.4 or newer."
    assert "pip install --upgrade" in status.failure.remedy


def refused(newer: Newer) -> Any:
    """Expect the refusal of what needs a release."""
    return pytest.raises(ConfigurationError, match=f"needs {newer.package} {re.escape(newer.least)} or newer; .* is in")


def test_muon_is_refused_where_torch_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    monkeypatch.setattr(releases, "_installed", lambda *_: "2.6.0")
    config = parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}, "optimizer": {"name": "muon"}})
    with refused(releases.MUON) as found:
        config.optimizer.for_model(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
    assert found.value.remedy == "Set optimizer.name adamw, or install torch 2.9 or newer."


def test_a_later_release_that_has_lost_a_part_is_told_from_one_that_is_too_old() -> None:
    found = releases.needed("A Trainer", Newer("torch", "2.6"), "Hand over a task")
    assert found.message.endswith(f"; {version('torch')} is installed, and does not have it.")
    assert found.remedy == "Hand over a task, or install torch as constraints.txt has it."


@pytest.mark.parametrize(
    ("installed", "is_old"),
    [("2.6.0a0+df5bbc09d1.nv24.12", False), ("2.6.0", False), ("2.10.0", False), ("2.3.1+cu121", True),
     ("2.3.0a0+6ddf5cf85e.nv24.04", True), ("a build of our own", False)],
)  # fmt: skip
def test_a_vendors_build_counts_as_the_release_that_it_is_of(installed: str, is_old: bool, tmp_path: Path) -> None:
    folder = tmp_path / "torch-0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {installed}\n")
    assert list(releases.too_old([str(tmp_path)])) == ([("torch", installed)] if is_old else [])


def test_a_divided_model_is_refused_where_torch_only_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed import fsdp

    monkeypatch.delattr(fsdp.FSDPModule, "set_gradient_divide_factor", raising=False)
    with refused(releases.FSDP2):
        require_fsdp2()
    monkeypatch.delattr(fsdp, "FSDPModule")  # torch 2.4 and 2.5
    with refused(releases.FSDP2):
        require_fsdp2()


def test_no_program_is_written_that_only_a_pickle_could_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Served(nn.Linear):
        output_names = ("output",)

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return super().forward(inputs[0])

    monkeypatch.setattr(exporters, "_archive_parts", lambda: None)
    served: Any = Served(4, 2)
    with refused(releases.PROGRAM):
        exporters.write(
            exporters.PROGRAM, served, {"input": torch.zeros(3, 4)}, exporters.Free({}), tmp_path / "model.pt2"
        )
    assert not (tmp_path / "model.pt2").exists()


@pytest.mark.slow
def test_a_trainer_without_epochs_of_their_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

    from trainwright.trainer.frameworks.hugging_face.trainer import TransformersTrainer

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=8, **sizes))
    handed = Trainer(model, TrainingArguments("out", report_to=[]), train_dataset=[{"input_ids": [1], "labels": 0}])
    monkeypatch.delattr(Trainer, "_run_epoch", raising=False)
    with refused(releases.TRAINER) as found:
        TransformersTrainer(handed)
    assert "configs/your_code.md" in found.value.remedy


def test_a_prompt_of_tokens_is_refused_where_peft_draws_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import peft
    from transformers import AutoConfig, AutoModelForCausalLM

    from trainwright.trainer.models.adapters import ADAPTERS

    config = AutoConfig.for_model("gpt2", vocab_size=8, n_positions=8, n_embd=8, n_layer=1, n_head=1)
    monkeypatch.setattr(peft, "PromptTuningInit", SimpleNamespace(RANDOM="RANDOM"))
    section = ADAPTERS["prompt"].model_validate({"name": "prompt"})
    with refused(releases.VOCABULARY) as found:
        section.build(AutoModelForCausalLM.from_config(config), Path())
    assert "adapter.init random" in found.value.remedy
