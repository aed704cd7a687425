"""A Trainer of transformers runs as it is, by the page that explains it: killed anywhere it ends with the same bits."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.releases import needs
from tests.trainer.killing import kill_at_call

from trainwright.tools.documents import SKILL
from trainwright.trainer.base import releases
from trainwright.trainer.base.container import IN_A_WALL
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.frameworks.framework import output_of_its_own
from trainwright.trainer.frameworks.positioned import PositionedLoader
from trainwright.trainer.run import RunDirectory, RunKind, RunState

pytestmark = [pytest.mark.requirement("TRAIN-7"), pytest.mark.slow, pytest.mark.forks, needs(releases.TRAINER)]

BENCHMARKS = Path(__file__).parents[3] / "benchmarks" / "resume"
VALUES: dict[str, Any] = {
    "trainer": {"use": "train.py:make_trainer", "args": {"learning_rate": 0.003, "epochs": 2}},
    "selection": {"metric": "accuracy", "direction": "maximize"},
    "logging": {"every_n_steps": 3, "tensorboard": False},
}


@pytest.fixture(scope="module")
def script() -> str:
    """The page's example."""
    page = (SKILL / "configs" / "own_trainer.md").read_text(encoding="utf-8")
    code, _ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert parse_config({**VALUES}).trainer is not None
    return str(code)


def test_a_trainer_that_is_made_at_the_top_is_made_anew_by_the_function_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (SKILL / "configs" / "own_trainer.md").read_text(encoding="utf-8")
    _, beside = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    (tmp_path / "train.py").write_text("trainer = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    given: dict[str, Any] = {}
    exec(beside, given)  # noqa: S102 - the block of the page
    assert given["make_trainer"]() is not given["make_trainer"]()
    monkeypatch.delitem(sys.modules, "train")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, script: str) -> Path:
    from transformers import BertForSequenceClassification, Trainer  # once, and not again in every fork

    assert BertForSequenceClassification
    assert Trainer
    folder = tmp_path_factory.mktemp("own_trainer")
    (folder / "train.py").write_text(script)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, root: Path, make_run: Any, work: Any) -> RunDirectory:
    run: RunDirectory = make_run(tmp_path_factory.mktemp("whole") / "whole", VALUES, code_root=str(root))
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.mark.parametrize("seed", ["7", "os.getpid()"])
def test_a_smoke_run_holds_another_process_to_the_same_data(
    seed: str, tmp_path: Path, script: str, make_run: Any, work: Any
) -> None:
    (tmp_path / "train.py").write_text(f"import os\n{script.replace('default_rng(7)', f'default_rng({seed})')}")
    run = make_run(tmp_path / "smoke", VALUES, code_root=str(tmp_path), kind=RunKind.SMOKE, max_steps=3)
    is_same = work(run) == 0
    assert is_same == (seed == "7"), run.log.read_text()
    probed = [event.data["splits"] for event in run.events() if event.kind == "data_probe"]
    assert probed == ([{"train": 240, "validation": 80}] if is_same else [])
    if not is_same:
        told = run.last_status().failure
        assert told is not None
        assert re.match(
            r"The data are others in another process: \d+ of 240 rows of train differ, the first is", told.message
        )
        assert "train a tokenizer once" in told.remedy


@pytest.mark.long
def test_its_steps_are_the_runs_records(whole: RunDirectory) -> None:
    summary = whole.evidence("summary")
    assert summary is not None
    assert (summary["stop_reason"], summary["steps"], summary["epochs"]) == ("completed", 30, 2)
    assert whole.metrics().count("train/loss") == 30
    assert {"loss", "accuracy"} <= summary["best"]["metrics"].keys()
    notes = " ".join(event.data["text"] for event in whole.events() if event.kind == "note")
    assert "logging_nan_inf_filter is off" in notes
    assert "held back as the test" in notes
    data = whole.evidence("data")
    assert data is not None
    assert {name: split["size"] for name, split in data["splits"].items()} == {
        "train": 240, "validation": 80, "test": 80,
    }  # fmt: skip
    assert not list(Path(whole.path).rglob("checkpoint-*")), "its own checkpoints are not written"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # TRL's own, about its library
def test_what_grpo_generated_for_several_steps_survives_a_kill_between_them(
    tmp_path: Path, make_run: Any, work: Any, recorded: Any
) -> None:
    import datasets
    import trl

    assert datasets
    assert trl.GRPOTrainer
    values = {
        "trainer": {"use": "own_trainers.py:make_grpo", "args": {"epochs": 1, "num_iterations": 3}},
        "logging": VALUES["logging"],
    }
    runs = [make_run(tmp_path / folder / "grpo", values, code_root=str(BENCHMARKS)) for folder in ("whole", "killed")]
    assert work(runs[0]) == 0, runs[0].log.read_text()
    assert work(runs[1], kill_at_call(Recorder.step, 8)) == -9
    assert work(runs[1]) == 0, runs[1].log.read_text()
    (resumed,) = [event.data["step"] for event in runs[1].events() if event.kind == "resumed"]
    assert resumed == 4, "inside of what was generated for steps 4 to 6"
    keys = ("train/loss", "train/reward", "train/gradient_norm", "validation/loss")
    assert recorded(runs[0], *keys) == recorded(runs[1], *keys)
    assert runs[0].evidence("summary")["weights_digest"] == runs[1].evidence("summary")["weights_digest"]


@pytest.mark.long
def test_a_loss_that_is_not_finite_ends_the_run_before_the_update(
    tmp_path: Path, script: str, make_run: Any, work: Any, root: Path
) -> None:
    code = script.replace("def make_trainer", "class Wrong(Trainer):\n" + WRONG + "\n\ndef make_trainer")
    (tmp_path / "wrong.py").write_text(code.replace("return Trainer(", "return Wrong("))
    values = {**VALUES, "trainer": {"use": "wrong.py:make_trainer", "args": {"learning_rate": 0.003, "workers": 0}}}
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run) == 1
    failure = run.status().failure
    assert failure is not None
    assert (run.status().state, failure.category) == (RunState.FAILED, "divergence")
    assert failure.details["step"] == 3
    assert len(failure.details["batch_indices"]) == 16


WRONG = """    def compute_loss(self, *args, **kwargs):
        found = super().compute_loss(*args, **kwargs)
        return found * float("nan") if self.state.global_step == 2 else found
"""


OLD = """    def compute_loss(self, model, inputs, return_outputs=False):
        return super().compute_loss(model, inputs, return_outputs)
"""
SETS = 'eval_dataset={"a": Tickets(240, 320, False), "b": Tickets(320, 400, False)}'
TWO_SETS = {
    "eval_dataset=Tickets(240, 400, mask=False)": SETS,
    "compute_metrics=accuracy,": "compute_metrics=accuracy, callbacks=[EarlyStoppingCallback(1)],",
    "report_to=[],": 'report_to=[], eval_strategy="epoch", load_best_model_at_end=True,',
    "logging_steps=5,": 'logging_steps=5, metric_for_best_model="eval_a_accuracy",',
    'save_strategy="steps"': 'save_strategy="epoch"',
    "import BertConfig,": "import BertConfig, EarlyStoppingCallback,",
}


@pytest.mark.long
def test_a_method_of_an_older_signature_is_the_users_with_the_argument_to_add(
    tmp_path: Path, script: str, make_run: Any, work: Any, root: Path
) -> None:
    code = script.replace("def make_trainer", "class Older(Trainer):\n" + OLD + "\n\ndef make_trainer")
    (tmp_path / "older.py").write_text(code.replace("return Trainer(", "return Older("))
    values = {**VALUES, "trainer": {"use": "older.py:make_trainer", "args": {"learning_rate": 0.003, "workers": 0}}}
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run) == 1
    failure = run.status().failure
    assert failure is not None
    assert failure.category == "user_code"
    assert "Older.compute_loss" in failure.message
    assert "lacks `num_items_in_batch`" in failure.message
    assert "num_items_in_batch=None" in failure.remedy


@pytest.mark.long
def test_several_evaluation_sets_are_measured_together_and_chosen_by_together(
    tmp_path: Path, script: str, make_run: Any, work: Any, root: Path
) -> None:
    for given, changed in TWO_SETS.items():
        assert given in script
        script = script.replace(given, changed)
    (tmp_path / "sets.py").write_text(script)
    args = {"learning_rate": 0.003, "epochs": 2, "workers": 0}
    values = {**VALUES, "trainer": {"use": "sets.py:make_trainer", "args": args}}
    run = make_run(tmp_path / "run", values, code_root=str(tmp_path))
    assert work(run) == 0, run.status().failure
    notes = " ".join(event.data["text"] for event in run.events() if event.kind == "note")
    assert "metric_for_best_model, eval_a_accuracy, is eval_accuracy" in notes
    assert run.evidence("data")["splits"]["validation"]["size"] == 80  # the other half is the test


def test_a_position_needs_no_state_and_workers_change_nothing(root: Path) -> None:
    class Noisy(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> Any:
            return torch.rand(()) + index

    def batches(workers: int, epoch: int, offset: int = 0) -> list[Any]:
        raw = torch.utils.data.DataLoader(Noisy(), 4, shuffle=True, num_workers=workers)
        loader = PositionedLoader(raw, seed=5)
        loader.set_epoch(epoch)
        return [batch.tolist() for batch in loader.from_batch(offset)]

    before = torch.get_rng_state()
    first = batches(0, epoch=1)
    assert len(first) == 10
    assert batches(2, epoch=1, offset=7) == first[7:]
    assert batches(0, epoch=2) != first
    assert torch.equal(torch.get_rng_state(), before)


def test_what_has_no_position_is_refused() -> None:
    class Fickle(torch.utils.data.Sampler[int]):
        asked = 0

        def __iter__(self) -> Any:
            Fickle.asked += 1
            return iter([(Fickle.asked + place) % 8 for place in range(8)])

        def __len__(self) -> int:
            return 8

    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(8))

    with pytest.raises(ConfigurationError, match="Fickle gives another order"):
        PositionedLoader(torch.utils.data.DataLoader(list(range(8)), 4, sampler=Fickle()), seed=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="Stream is a stream"):
        PositionedLoader(torch.utils.data.DataLoader(Stream(), 4), seed=1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("optimizer", {"learning_rate": 0.1}), ("training", {"epochs": 3}), ("model", {"use": "mlp"}), ("loss", "mse")],
)
def test_a_key_that_the_trainer_decides_is_refused_with_its_name(key: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"is decided by the trainer that `train.py:make_trainer` returns"):
        parse_config({**VALUES, key: value})


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("get_train_dataloader(self)", "its get_train_dataloader reads other rows than train_dataset has"),
        ("get_eval_dataloader(self, samples=None)", "its get_eval_dataloader reads other rows than eval_dataset has"),
    ],
)
def test_a_loader_of_other_rows_than_the_trainer_shows_is_refused(
    method: str, told: str, script: str, tmp_path: Path, open_session: Any
) -> None:
    other = f"    def {method}:\n        return torch.utils.data.DataLoader(Tickets(0, 32, mask=False), 16)\n"
    code = script.replace("def make_trainer", f"class Other(Trainer):\n{other}\n\ndef make_trainer")
    (tmp_path / "other_rows.py").write_text(code.replace("return Trainer(", "return Other("))
    values = {**VALUES, "trainer": {"use": "other_rows.py:make_trainer", "args": {"learning_rate": 0.003}}}
    with pytest.raises(ConfigurationError, match=told):
        open_session(values)


NOT_FOLLOWED = ("auto_find_batch_size", "deepspeed", "fsdp", "use_vllm", "use_liger_kernel")


@pytest.mark.parametrize("name", NOT_FOLLOWED)
def test_arguments_that_no_run_can_follow_are_refused_by_name(
    name: str, script: str, tmp_path: Path, open_session: Any
) -> None:
    from trainwright.trainer.frameworks.hugging_face.trainer import REFUSED

    assert tuple(each for each, _, _ in REFUSED) == NOT_FOLLOWED
    code = script.replace("return Trainer(", "trainer = Trainer(")
    (tmp_path / f"{name}.py").write_text(f"{code}    trainer.args.{name} = True\n    return trainer\n")
    values = {**VALUES, "trainer": {"use": f"{name}.py:make_trainer", "args": {"learning_rate": 0.003}}}
    with pytest.raises(ConfigurationError, match=f"its {name} ") as raised:
        open_session(values)
    assert raised.value.remedy


def test_evaluation_reads_every_row_where_training_drops_the_last(
    script: str, tmp_path: Path, open_session: Any
) -> None:
    code = script.replace("report_to=[],", "report_to=[], dataloader_drop_last=True,").replace("(0, 240,", "(0, 235,")
    (tmp_path / "dropping.py").write_text(code.replace("Tickets(240, 400", "Tickets(240, 350"))
    values = {**VALUES, "trainer": {"use": "dropping.py:make_trainer", "args": {"learning_rate": 0.003, "workers": 0}}}
    framework = open_session(values).work.framework
    assert len(framework.loader) == 14, "of 235 rows in batches of 16"
    trainer = framework.handed
    read = [len(batch["labels"]) for batch in trainer.get_eval_dataloader()]
    assert sum(read) == len(trainer.eval_dataset) == 55
    assert any("dataloader_drop_last is off in evaluation" in text for text in framework.changed)


@pytest.mark.requirement("GATE-5")
def test_behind_a_wall_a_trainers_output_goes_where_the_worker_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import TrainingArguments

    with output_of_its_own():
        assert TrainingArguments(output_dir="results/first").output_dir == "results/first"
    monkeypatch.setenv(IN_A_WALL, "landlock")
    with output_of_its_own():
        assert TrainingArguments(output_dir="results/first").output_dir == f"{tempfile.gettempdir()}/first"
    assert TrainingArguments(output_dir="results/first").output_dir == "results/first"
