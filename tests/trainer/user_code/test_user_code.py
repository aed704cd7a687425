"""Whatever the user's code does wrong ends as one clear, classified failure, and the record is whole."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.trainer.users import PARTS, TASK
from tests.variants import variants

from trainwright.trainer.run import Limits, RunState

BAD_CODE = {
    "raises at import": ("1 / 0", "ZeroDivisionError", "1 / 0"),
    "has a syntax error": ("def broken(:", "SyntaxError", "def broken(:"),
    "imports what is not there": ("import no_such_module", "no_such_module", "import no_such_module"),
    "exits at import": ("import sys\nsys.exit(3)", "exit code 3", "sys.exit(3)"),
    "exits hard at import": ("import os\nos._exit(4)", "exit code 4", "os._exit(4)"),
    "parses arguments at import": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--x', required=True)\np.parse_args()",
        "exit code 2",
        "p.parse_args()",
    ),
    "raises in the model": ("class Net(Net):\n    def __init__(self): raise KeyError('width')", "KeyError", "KeyError"),
    "raises in forward": ("class Net(Net):\n    def forward(self, x): return self.nothing", "nothing", "self.nothing"),
    "raises in the data": ("def data(): return [][1]", "IndexError", "[][1]"),
    "raises from itself": (
        "def data():\n    try: [][1]\n    except IndexError as e: raise e from e",
        "IndexError",
        "raise e from e",
    ),
    "raises in an import of its own": ("import other", "ZeroDivisionError", "1 / 0"),
    "raises a long text from deep": (
        "def data(n=60):\n    if n: return data(n - 1)\n    raise ValueError('deep' * 9000)",
        "ValueError",
        "raise ValueError('deep' * 9000)",
    ),
    "raises late": (
        "class Net(Net):\n    n = 0\n    def forward(self, x):\n        Net.n += 1\n"
        "        if Net.n > 9: raise OSError('late')\n        return super().forward(x)",
        "late",
        "raise OSError('late')",
    ),
    "exits late": (
        "import os\nclass Net(Net):\n    n = 0\n    def forward(self, x):\n        Net.n += 1\n"
        "        if Net.n > 9: os._exit(0)\n        return super().forward(x)",
        "exit code 0",
        "os._exit(0)",
    ),
}


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    "fault",
    variants(BAD_CODE, quick=["has a syntax error", "exits hard at import", "raises from itself", "raises late"]),
)
def test_bad_user_code_is_a_classified_failure_with_its_own_traceback(fault: str, ended: Any, tmp_path: Path) -> None:
    code, told, last_lines = BAD_CODE[fault]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "other.py").write_text("1 / 0")
    run = ended(code)
    status = run.status()
    assert status.state is RunState.FAILED
    assert status.failure.category == "user_code", status.failure
    assert told in status.failure.message + str(status.failure.traceback)
    assert last_lines in status.failure.traceback
    assert "mine.py" in status.failure.traceback
    assert "mine.py" in status.failure.traceback.splitlines()[0]
    assert "<frozen" not in status.failure.traceback
    assert "trainer/" not in status.failure.traceback.replace("tests/trainer", "")
    assert len(status.failure.traceback.splitlines()) <= 40
    assert len(status.failure.message) <= 500
    assert status.failure.remedy
    assert [event.kind for event in run.events()][-2:] == ["failed", "ended"]


@pytest.mark.requirement("GATE-4")
def test_the_wall_clock_limit_stops_a_run_in_order(ended: Any) -> None:
    slow = "import time\nclass Net(Net):\n    def forward(self, x):\n        time.sleep(0.02)\n        return super().forward(x)"
    values = {**PARTS, "training": {"epochs": 10_000}, "early_stopping": {"enabled": False}}
    run = ended(slow, values, limits=Limits(wall_clock_seconds=4.0))
    assert (run.status().state, run.status().stop_reason) == (RunState.STOPPED, "wall_clock_limit")
    assert run.status().step > 0
    assert (run.checkpoints / f"step-{run.status().step:08d}" / "manifest.json").exists()


@pytest.mark.requirement("TRAIN-1")
def test_code_that_prints_trains_as_any_other(ended: Any) -> None:
    run = ended("import sys\nprint('hello', sys.argv[1:])\nsys.stderr.write('oops')")
    assert run.status().state is RunState.COMPLETED
    assert "hello []" in run.log.read_text()


@pytest.mark.requirement("TRAIN-1")
def test_a_crash_by_a_signal_leaves_its_name_in_the_log_and_the_stage_it_came_in(
    tmp_path: Path, make_run: Any, work: Any, mine: str
) -> None:
    crash = "import os\nclass Net(Net):\n    n = 0\n    def forward(self, x):\n        Net.n += 1\n        if Net.n > 6: os.abort()\n        return super().forward(x)"
    (tmp_path / "mine.py").write_text(mine + crash)
    run = make_run(tmp_path / "run", PARTS, code_root=str(tmp_path))
    assert work(run) == -6
    assert (run.status().state, run.status().stage) == (RunState.INTERRUPTED, "training")
    assert "Fatal Python error: Aborted" in run.log.read_text()


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    "where",
    [
        "import os; os.fork()",
        "class Net(Net):\n    n = 0\n    def forward(self, x):\n        Net.n += 1\n        if Net.n == 6: os.fork()\n        return super().forward(x)",
    ],
    ids=["import", "forward"],
)
def test_a_process_that_user_code_forks_is_no_second_worker(where: str, ended: Any) -> None:
    run = ended(f"import os\n{where}")
    assert run.status().state is RunState.COMPLETED
    assert [event.kind for event in run.events()].count("ended") == 1
    assert "user code forked" in run.log.read_text()


LEFT_BEHIND = """
import threading
def stay(): threading.Event().wait()
threading.Thread(target=stay).start()
"""


@pytest.mark.long
@pytest.mark.requirement("TRAIN-1", "GATE-4")
@pytest.mark.parametrize(
    "more",
    ["", pytest.param("class Net(Net):\n    def forward(self, x): raise KeyError('late')", marks=pytest.mark.long)],
)
def test_threads_that_user_code_leaves_behind_do_not_keep_the_process(
    more: str, tmp_path: Path, make_run: Any, started: Any, mine: str
) -> None:
    (tmp_path / "mine.py").write_text(mine + LEFT_BEHIND + more)
    run = make_run(tmp_path / "run", PARTS, code_root=str(tmp_path))
    code = started(run).wait(120)
    assert code == (1 if more else 0), run.log.read_text()
    assert run.status().state is (RunState.FAILED if more else RunState.COMPLETED)


WRONG_ENTRIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "near name": ({"model": {"use": "mine:Nte"}}, ("mine:Nte", "Near: Net")),
    "near module": ({"model": {"use": "mien:Net"}}, ("model.use", "mien.py", "Near: mine")),
    "near file": ({"model": {"use": "mien.py:Net"}}, ("model.use", "mien.py", "Near: mine.py")),
    "outside": ({"model": {"use": "../../escape.py:Net"}}, ("outside the code root",)),
    "through a link": ({"model": {"use": "link.py:Net"}}, ("outside the code root",)),
    "not its own": ({"model": {"use": "mine:nn.Linear"}}, ("outside the code root",)),
    "of the system": ({"data": {"use": "mine:system"}}, ("outside the code root",)),
    "not callable": ({"model": {"use": "mine:number"}}, ("must be callable",)),
    "wrong arguments": ({"model": {"use": "mine:Net", "args": {"widht": 3}}}, ("widht", "signature (width=8)")),
    "no module": ({"model": {"use": "mine:data"}}, ("must be a torch.nn.Module",)),
    "metric of another task": ({"metrics": ["mae"]}, ("mae is for regression",)),
    "selection nobody measures": ({"selection": {"metric": "f1"}}, ("selection.metric",)),
    "no such device": ({"training": {"device": "cuda"}}, ("training.device",)),
}


MENDED_ENTRIES: dict[str, dict[str, Any]] = {
    "near name": {"model.use": "mine:Net"},
    "near module": {"model.use": "mine:Net"},
    "near file": {"model.use": "mine.py:Net"},
    "selection nobody measures": {"metrics": ["f1"]},
}


@pytest.mark.requirement("CONF-1", "GATE-5")
@pytest.mark.parametrize("fault", WRONG_ENTRIES)
def test_a_wrong_entry_names_its_key_the_place_and_what_is_near(
    fault: str, ended_here: Any, tmp_path: Path, mine: str
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere.py").write_text(mine)
    (tmp_path.parent / "escape.py").write_text(mine)
    (tmp_path / "project" / "link.py").symlink_to(tmp_path / "elsewhere.py")
    changes, told = WRONG_ENTRIES[fault]
    run = ended_here("from os import system\nnumber = 3", {**PARTS, **changes})
    failure = run.status().failure
    assert failure.category == "configuration", failure
    for text in told:
        assert text in failure.message
    assert failure.remedy
    assert failure.details.get("changes") == MENDED_ENTRIES.get(fault)


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize(
    "folder", ["json", *(pytest.param(name, marks=pytest.mark.long) for name in ("code", "test/code"))]
)
def test_a_folder_named_like_a_library_is_trained_from_all_the_same(
    folder: str, ended: Any, tmp_path: Path, mine: str
) -> None:
    place = tmp_path / "project" / folder
    place.mkdir(parents=True)
    (place / "net.py").write_text(f"from beside import number\n{mine}")
    (place / "beside.py").write_text("number = 3")
    run = ended("", {**PARTS, "model": {"use": f"{folder}/net.py:Net"}})
    assert run.status().state is RunState.COMPLETED, run.status().failure
    assert {f"{folder}/net.py", f"{folder}/beside.py"} <= run.evidence("code")["files"].keys()
    assert run.evidence("resolved")["model_class"] == f"{folder}/net.py:Net"


UNFIT: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "too few outputs": ("class Net(Net):\n    def forward(self, x): return x[:, :1]", {}, "configuration|data", "1"),
    "label outside": ("def data():\n    d = globals()['torch']\n    return d.utils.data.TensorDataset(d.randn(40, 4), d.arange(40) % 3)", {}, "data", "Label 2 is outside the model's 2 classes"),
    "negative label": ("def data():\n    import torch as d\n    return d.utils.data.TensorDataset(d.randn(40, 4), d.arange(40) % 2 - 1)", {}, "data", "Label -1"),
    "float labels": ("def data():\n    import torch as d\n    return d.utils.data.TensorDataset(d.randn(40, 4), d.randn(40))", {}, "configuration", "class numbers"),
    "nan features": ("def data():\n    import torch as d\n    x = d.randn(40, 4)\n    x[7, 2] = float('nan')\n    return d.utils.data.TensorDataset(x, d.arange(40) % 2)", {}, "data", "NaN or infinite"),
    "empty data": ("def data():\n    return []", {}, "data", "empty"),
    "no data set": ("def data():\n    return 7", {}, "data", "__len__"),
    "one sample": ("def data():\n    return data_of(1)\ndef data_of(n):\n    return [(torch.ones(4), 0)] * 9", {}, "data", "distinct samples are too few"),
    "mse on classes": ("", {"loss": "mse"}, "configuration", "equally many"),
    "nothing to choose by": ("", {"data": {"use": "mine:data", "split": {"validation": 0.0}}}, "configuration", "no validation split"),
    "no gradient": ("class Net(Net):\n    def forward(self, x): return super().forward(x).detach()", {}, "configuration", "does not depend on any trainable"),
    "unreadable output": ("class Net(Net):\n    def forward(self, x): return [x]", {}, "configuration", "could not be found"),
    "metric of other shapes": ("class Net(Net):\n    def forward(self, x): return super().forward(x)[:, :, None]\ndef loss(o, t): return o.mean()", {"loss": "mine:loss", "metrics": ["r2"]}, "configuration", "Metric r2 cannot be computed of outputs (8, 2, 1), targets (8,)"),
    "own metric that raises": ("def share(outputs, targets): return outputs.nothing", {"metrics": ["mine:share"]}, "user_code", "metric `share` raised"),
    "selection its metric does not return": ("def share(outputs, targets): return {'part': 1.0}", {"metrics": ["mine:share"], "selection": {"metric": "prat"}}, "configuration", "Near: part"),
    "returns does not fit": ("", {"returns": ".loss"}, "configuration|user_code", "forward"),
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("fault", UNFIT)
def test_data_or_a_model_that_does_not_fit_is_told_before_training(fault: str, ended_here: Any) -> None:
    code, changes, categories, told = UNFIT[fault]
    run = ended_here(code, {**PARTS, **changes})
    status = run.status()
    assert status.state is RunState.FAILED
    assert status.failure.category in categories.split("|"), status.failure
    assert told in status.failure.message
    assert status.step == 0
    assert not list(run.checkpoints.glob("step-*"))


@pytest.mark.requirement("REPRO-2")
def test_a_nondeterministic_operation_is_named_with_a_deterministic_replacement(ended: Any, tmp_path: Path) -> None:
    code = """
    class Net(Net):
        def forward(self, x):
            y = super().forward(x)
            torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
            return y
    """
    run = ended(code)
    failure = run.status().failure
    assert failure.category == "reproducibility"
    assert "put_" in failure.message
    assert "index_put_" in failure.remedy
    assert "reproducibility.deterministic" not in failure.remedy  # an exemption is the owner's to give


@pytest.mark.requirement("REPRO-2")
def test_a_run_without_deterministic_operation_says_so(ended: Any) -> None:
    run = ended("", {**PARTS, "reproducibility": {"deterministic": False}})
    assert run.status().state is RunState.COMPLETED
    record = run.evidence("reproducibility")
    assert record["settings"]["deterministic_algorithms"] is False
    assert record["probe"]["nondeterministic_operation_refused"] is not True


@pytest.mark.requirement("DIAG-1", "TRAIN-1")
def test_a_non_finite_loss_stops_the_run_at_that_very_step(ended: Any) -> None:
    code = """
    def build(config, context):
        def step(model, batch, context):
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
            return {"loss": loss * float("nan") if context.step == 6 else loss}
        return {"model": Net(), "train": data(), "validation": data(20), "step": step}
    """
    run = ended(code, TASK)
    status = run.status()
    assert (status.state, status.failure.category) == (RunState.FAILED, "divergence")
    details = status.failure.details
    assert (details["step"], status.step) == (7, 6)
    assert len(details["batch_indices"]) == 8
    assert details["changes"] == {"optimizer.learning_rate": 0.0001}
    assert run.events("alert")[0].data["id"] == "nan_loss"
    assert run.metrics().last("train/loss").step == 7
    assert [path.name for path in run.checkpoints.glob("step-*")] == ["step-00000005"]


TIERS = {
    "returns a loss with its logits": (
        "class Both(Net):\n    def forward(self, x, y=None):\n        z = self.layers(x)\n"
        "        return z, None if y is None else nn.functional.cross_entropy(z, y)\n"
        "def build(config, context): return {'model': Both(), 'train': data(), 'validation': data(20)}",
        "logits,loss",
    ),
    "computes its own loss": (
        "class Own(Net):\n    def compute_loss(self, batch):\n        return nn.functional.cross_entropy(self(batch[0]), batch[1])\n"
        "def build(config, context): return {'model': Own(), 'train': data(), 'validation': data(20)}",
        "compute_loss",
    ),
    "takes keywords": (
        "class Words(Net):\n    def forward(self, x, labels=None):\n        from types import SimpleNamespace as S\n"
        "        z = self.layers(x)\n        return S(logits=z, loss=None if labels is None else nn.functional.cross_entropy(z, labels))\n"
        "def build(config):\n    d = [{'x': x, 'labels': y} for x, y in data()]\n    return {'model': Words(), 'train': d, 'validation': d[:8], 'loss': 'cross_entropy'}",
        "output",
    ),
    "hands over batches": (
        "def build(config, context):\n    d = data()\n    b = [d[i:i + 10] for i in range(0, 40, 10)]\n    return {'model': Net(), 'train': b, 'validation': b[:1], 'batch_size': None}",
        "output",
    ),
    "streams": (
        "class S(torch.utils.data.IterableDataset):\n    def __len__(self): return 40\n    def __iter__(self): return iter(data())\n"
        "def build(config, context): return {'model': Net(), 'train': S(), 'validation': data(20)}",
        "output",
    ),
    "gives groups": (
        "def build(config, context):\n    m = Net(config['width'])\n    return {'model': m, 'train': data(), 'validation': data(20), 'param_groups': [{'params': m.parameters(), 'lr': 1e-4}]}",
        "output",
    ),
    "is lazy": (
        "def build(config, context): return {'model': nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(2)), 'train': data(), 'validation': data(20)}",
        "output",
    ),
    "steps by itself": (
        "def build(config, context):\n    m = nn.ModuleDict({'a': Net(), 'b': Net()})\n"
        "    o = {k: torch.optim.SGD(m[k].parameters(), 0.1) for k in m}\n"
        "    def train_step(model, batch, context):\n        x, y = batch\n        out = {}\n        for k in model:\n"
        "            o[k].zero_grad()\n            l = nn.functional.cross_entropy(model[k](x), y)\n            l.backward()\n            o[k].step()\n"
        "            out[k + '_loss'] = l.detach()\n        return out\n"
        "    def validation_step(model, batch, context):\n        assert not context.training\n"
        "        return {'loss': sum(nn.functional.cross_entropy(model[k](batch[0]), batch[1]) for k in model)}\n"
        "    return {'model': m, 'train': data(), 'validation': data(20), 'train_step': train_step,\n"
        "            'validation_step': validation_step, 'optimizers': o}",
        None,
    ),
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("tier", TIERS)
def test_a_task_of_every_kind_trains_and_how_it_is_called_is_recorded(tier: str, ended_here: Any) -> None:
    code, returns = TIERS[tier]
    values = {**TASK, "task": {"use": "mine:build", "args": {"width": 6}}}
    run = ended_here(code, values)
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    assert run.evidence("resolved")["returns"] == returns
    first, last = (run.metrics().series("train/epoch_loss")[place].value for place in (0, -1))
    assert last < first
    assert run.metrics().series("validation/loss")
    assert run.evidence("summary")["best"]["value"] == min(p.value for p in run.metrics().series("validation/loss"))


@pytest.mark.requirement("TRAIN-1", "CONF-1")
@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("{'model': Net()}", "no `train`|no 'train'"),
        ("{'model': Net(), 'trian': data()}", "Near: train"),
        ("{'model': 3, 'train': data()}", "must be a torch.nn.Module"),
        ("[Net()]", "must return a dict"),
        ("{'model': Net(), 'train': data(), 'train_step': print}", "belong together"),
        (
            "{'model': Net(), 'train': data(), 'validation': data(9), 'step': lambda m, b, c: {'los': 1}}",
            "step returned",
        ),
        ("{'model': Net(), 'train': data(), 'loss': 'mze'}", "The task's `loss`"),
        ("{'model': Net(), 'train': data()}", "no validation split"),
        (
            "{'model': Net(), 'train': data(), 'validation': data(9), 'train_step': print, 'optimizers': []}",
            "nothing measures the validation",
        ),
        (
            "{'model': Net(), 'train': data(), 'validation': data(9), 'validation_step': lambda m, b, c: {}}",
            "validation_step returned",
        ),
    ],
)
def test_a_task_that_hands_over_something_wrong_is_told_what(returned: str, told: str, ended_here: Any) -> None:
    run = ended_here(f"def build(config, context): return {returned}", TASK)
    failure = run.status().failure
    assert failure.category in {"configuration", "user_code"}, failure
    assert any(text in failure.message for text in told.split("|")), failure.message
