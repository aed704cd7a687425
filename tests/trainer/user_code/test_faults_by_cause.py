"""Faults of the user's own code are named at the smoke run by their cause, and what has one reading is read."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from tests.trainer.users import PARTS, TASK
from tests.trainer.whole_runs import trained

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.data.own_samples import notes_on_draws
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.user_code.guard import library_code, user_code

SET = """
class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
        self.y = (self.x[:, 0] > 0).long()
    def __len__(self): return 40
    def __getitem__(self, i): return self.x[i], self.y[i]
class Stream(torch.utils.data.IterableDataset):
    def __len__(self): return 40
    def __iter__(self): return (Rows()[i] for i in range(40))
"""


def rows(body: str, more: str = "", kind: str = "Rows") -> str:
    """Return the code of a data set with one method of its own, which `data` returns."""
    return f"{SET}\nclass Mine({kind}):\n    {more or 'pass'}\n    def {body}\ndef data(): return Mine()"


def forward(body: str) -> str:
    """Return the code of a network whose forward is this expression of x and of the plain output y."""
    return f"class Net(Net):\n    def forward(self, x):\n        y = super().forward(x)\n        return {body}"


READ = "__getitem__(self, i):"
LOSS = {"loss": "mine:loss"}
FAULTS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "added in place": (rows(f"{READ}\n        x = self.x[i]; x += torch.randn(4); return x, self.y[i]"), {}, "Mine.__getitem__ changes the data set in place (self.x)", "clone()"),
    "scaled in place, and copied": (rows(f"{READ}\n        self.x[i] *= 2; return self.x[i].clone(), self.y[i]"), {}, "in place (self.x)", "clone()"),
    "erased in place": (rows(f"{READ}\n        self.x[i, int(torch.randint(4, ()))] = 0; return self.x[i].clone(), self.y[i]"), {}, "in place (self.x)", "clone()"),
    "one buffer for all": (rows(f"{READ}\n        self.b[:] = self.x[i]; return self.b, self.y[i]", "b = torch.zeros(4)"), {}, "is the one read before: Mine.__getitem__", "clone()"),
    "in place, of no Dataset": (rows(f"{READ}\n        self.x[i] *= 2; return self.x[i].clone(), self.y[i]").replace("(torch.utils.data.Dataset)", ""), {}, "in place (self.x)", "clone()"),
    "arrays in place": (rows(f"{READ}\n        self.a[i] *= 2; return torch.tensor(self.a[i]), self.y[i]", "a = Rows().x.numpy()\n    def __init__(self): super().__init__(); self.a = self.x.numpy()"), {}, "in place (self.", ".copy()"),
    "a dict changed": (rows(f"{READ}\n        self.rows[i]['x'] = self.rows[i]['x'] * 2; return self.rows[i]", "rows = [{'x': x, 'label': y} for x, y in zip(Rows().x, Rows().y)]"), {}, "in place", "dict(row)"),
    "a dict emptied": (rows(f"{READ}\n        return self.x[i], self.rows[i].pop('y')", "rows = [{'y': y} for y in Rows().y]"), {}, "read a second time under the same seed, raises KeyError", "copy"),
    "a stream in place": (rows("__iter__(self):\n        for x, y in self.rows:\n            x *= 2; yield x, y", "rows = [Rows()[i] for i in range(40)]", "Stream"), {}, "Mine.__iter__ changes the data set in place", "clone()"),
    "a stream of one reading": (rows("__iter__(self): return self.all", "all = iter([Rows()[i] for i in range(40)])", "Stream"), {}, "same iterator each time", "yield"),
    "nothing": (rows(f"{READ}\n        if i != 7: return self.x[i], self.y[i]"), {}, "Sample 7 of the data is None", "on every path"),
    "no target in one sample": (rows(f"{READ}\n        return self.x[i], None if i == 7 else self.y[i]"), {}, "Sample 7 of the data has None as one of its values", "on every path"),
    "a length of parts": (rows("__len__(self): return 40 / 1"), {}, "`__len__` of Mine returned 40.0", "//"),
    "a length that is a property": (rows("n(self): return 40", "__len__ = property(lambda self: 40)"), {}, "`__len__` of Mine is no method", "def __len__"),
    "one sample too many": (rows("__len__(self): return 41"), {}, "sample 40 is not there", "__len__"),
    "a key that its code lacks": (rows(f"{READ}\n        return self.x[i], {{0: 0}}[i // 39]"), {}, "raised KeyError: 1", "traceback"),
    "no way of reading": ("class Mine(torch.utils.data.Dataset):\n    def __len__(self): return 40\ndef data(): return Mine()", {}, "defines no `__getitem__`", "def __getitem__"),
    "two data sets": (f"{SET}\ndef data(): return Rows(), Rows()", {}, "a tuple of 2 data sets", '"validation"'),
    "arrays of two lengths": (f"{SET}\ndef data(): return Rows().x, Rows().y[1:]", {}, "2 arrays with 40, 39 rows", "TensorDataset"),
    "two lists": (f"{SET}\ndef data(): return Rows().x.tolist(), Rows().y.tolist()", {}, "a tuple of 2 lists", "torch.tensor"),
    "a table": ("import pandas\ndef data(): return pandas.DataFrame({'x': range(40)})", {}, "a DataFrame of pandas", "to_numpy()"),
    "a file's name": (rows(f"{READ} return self.x[i], self.y[i], f'{{i}}.png'"), {}, "last of a sample's 3 values) of a sample is text", "no place in a sample"),
    "a file's name before it": (rows(f"{READ} return f'{{i}}.png', self.x[i], self.y[i]"), {}, "Input 0 of a sample is text", "leave the text out"),
    "a class's name": (rows(f"{READ} return self.x[i], 'cat' if self.y[i] else 'dog'"), {}, "The target of a sample is text", "names.index"),
    "three values": (rows(f"{READ} return self.x[i], self.x[i], self.y[i]"), {}, "Net.forward(x) cannot take 2 inputs", "(inputs, target)"),
    "a key that forward lacks": (rows(f"{READ} return {{'x': self.x[i], 'kind': self.y[i]}}"), {}, "does not take `kind`", "target's key"),
    "one value": (rows(f"{READ} return self.x[i]"), {}, "no target is there for the loss", "(inputs, target)"),
    "lists of numbers": (rows(f"{READ} return self.x[i].tolist(), self.y[i]"), {}, "is a list of (a tensor", "torch.tensor(values)"),
    "several shapes": (rows(f"{READ} return self.x[i][: 2 + i % 3], self.y[i]"), {}, "Samples are of several shapes", "pad"),
    "pictures of Pillow": (rows(f"{READ} return Image.new('L', (2, 2), i), self.y[i]", "from PIL import Image\n    global Image"), {}, "it is a PIL.Image", "from_numpy"),
    "doubles": (rows(f"{READ} return self.x[i].double(), self.y[i]"), {}, "is float64, and the model's weights are float32", "x.float()"),
    "another number of features": (rows(f"{READ} return self.x[i][:3], self.y[i]"), {}, "Layer `layers.0` (Linear) is made for 4 inputs and is given 3", "3 inputs"),
    "a picture that is not flattened": (rows(f"{READ} return self.x[i].reshape(1, 2, 2), self.y[i]"), {}, "Layer `layers.0` (Linear) is made for 4 inputs and is given 2, in a tensor (8, 1, 2, 2)", "`x.flatten(1)`"),
    "numbers as classes": (rows(f"{READ} return self.x[i], self.y[i].float()"), {}, "The targets, (8,) float32, do not fit loss cross_entropy: class numbers are whole", "label.long()"),
    "numbers to predict": (rows(f"{READ} return self.x[i], self.x[i, 0]"), {}, "The targets, (8,) float32", "mse"),
    "one-hot": (rows(f"{READ} return self.x[i], nn.functional.one_hot(self.y[i], 2)"), {}, "one-hot", "argmax"),
    "fewer than samples": (f"{SET}\ndef short(items): return torch.stack([x for x, _ in items]), torch.stack([y for _, y in items])[1:]\ndef build(config): return {{'model': Net(), 'train': Rows(), 'validation': Rows(), 'collate': short}}", TASK, "a batch of 8 samples has 7 of them", "one target for each sample"),
    "none that counts": (f"{SET}\ndef data(): return Rows().x, Rows().y * 0 - 100", {}, "All 28 targets of the train split are -100", "class numbers"),
    "a list as batch": (f"{SET}\ndef build(config): return {{'model': Net(), 'train': Rows(), 'validation': Rows(), 'collate': list}}", TASK, "`collate` returned a list of 8 samples", "torch.stack"),
    "a batch of one squeezed": (forward("y[:, :1].squeeze()"), {"loss": "bce_with_logits"}, "Net.forward returns shape () for a batch of one sample and shape (2,) for two", ".squeeze(-1)"),
    "features squeezed": (forward("super().forward(x[:, None].squeeze())"), {}, "for a batch of one sample", ".squeeze(-1)"),
    "one size of batch": (forward("y + torch.zeros(16, 2)"), {"loader": {"batch_size": 16}}, "takes a batch of 16 samples and none of another size", "x.shape[0]"),
    "a sample lost": (forward("y[:-1]"), {}, "The model's output, (7, 2) float32, does not fit loss cross_entropy: its first dimension must be the 8 samples", "first dimension"),
    "the class in place of logits": (forward("y.argmax(1)"), {}, "must be floating point", "argmax"),
    "no return": (forward("None"), {}, "returned None: forward has no `return`", "return output"),
    "an array": (forward("y.detach().numpy()"), {}, "an array has no gradient", ".numpy()"),
    "no gradient": (forward("y.detach()"), {}, "the output of Net has no gradient", ".detach()"),
    "gradients off": ("torch.set_grad_enabled(False)", {}, "gradients are switched off", "Take that call out"),
    "a loss for each sample": ("def loss(o, t): return nn.functional.cross_entropy(o, t, reduction='none')", LOSS, "returned a tensor (8,)", ".mean()"),
    "a loss as a number": ("def loss(o, t): return nn.functional.cross_entropy(o, t).item()", LOSS, "returned a float", ".item()"),
    "no loss": ("def loss(o, t): nn.functional.cross_entropy(o, t)", LOSS, "returned None", "return loss"),
    "a loss of its own graph": ("def loss(o, t): return torch.tensor(nn.functional.cross_entropy(o, t).item(), requires_grad=True)", LOSS, "the model's output has a gradient, and the loss has none", "torch.tensor"),
    "a loss that makes one": ("def loss(): return nn.CrossEntropyLoss()", LOSS, "is called as (output, target), and its parameters are ()", "(output, target)"),
    "a loss with weights": ("class Loss(nn.Module):\n    def __init__(self): super().__init__(); self.w = nn.Parameter(torch.ones(2))\n    def forward(self, o, t): return nn.functional.cross_entropy(o * self.w, t)", {"loss": "mine:Loss"}, "parameters of its own, which no optimizer", "returns: loss"),
    "a metric of one argument": ("def share(outputs): return 1.0", {"metrics": ["mine:share"]}, "metric `share` is called as (outputs, targets), and its parameters are (outputs)", "(outputs, targets)"),
    "a metric that is no function": ("class Share:\n    def compute(self): return 1.0", {"metrics": ["mine:Share"]}, "a Share cannot be called", "__call__"),
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_by_its_cause_before_training(fault: str, ended_here: Any) -> None:
    code, changes, cause, remedy = FAULTS[fault]
    try:
        run = ended_here(code, {**({} if "task" in changes else PARTS), **changes}, kind=RunKind.SMOKE, max_steps=2)
    finally:
        torch.set_grad_enabled(True)
    status = run.status()
    assert status.state is RunState.FAILED
    failure = status.failure
    assert failure.category in {"user_code", "data", "configuration"}, failure
    assert cause in failure.message
    assert remedy in failure.remedy
    assert status.step == 0
    about_targets = "targets" in failure.message.partition(",")[0]
    assert not (about_targets and "last layer" in failure.remedy)


CRITERION = "class Loss(nn.Module):\n    def __init__(self): super().__init__(); self.layer = nn.Linear(2, 2)\n    def forward(self, o, t): return nn.functional.cross_entropy(self.layer(o), t)\n"
OF_A_TASK = f"{SET}\ndef build(config): return {{'model': Net(), 'train': Mine(), 'validation': Mine()}}"
RIGHT: dict[str, tuple[str, dict[str, Any]]] = {
    "a cache in a tensor, and draws of its own": (rows(f"{READ}\n        self.c[i] = self.x[i]; return self.c[i] + torch.randn(4, generator=self.g), self.y[i]", "def __init__(self): super().__init__(); self.c, self.g = torch.zeros(40, 4), torch.Generator()"), {}),
    "draws keyed to a sample, and a count": (rows(f"{READ}\n        self.n[i] += 1; return self.x[i] + torch.randn(4), self.y[i]", "n = torch.zeros(40)"), {}),
    "a mapping whose values are in a file": (rows(f"{READ} return self.file[i]", "class File(collections.UserDict):\n        def values(self): raise MemoryError\n    file = File(enumerate(Rows()))").replace("\nclass", "\nimport collections\nclass", 1), {}),
    "computed without a graph": (rows(f"{READ} return self.x[i].clone(), self.y[i]", "@torch.inference_mode()\n    def __init__(self): super().__init__()"), {}),
    "a stream that sets itself back": (rows("__iter__(self): self.at = iter([Rows()[i] for i in range(40)]); return self", "def __next__(self): return next(self.at)", "Stream") + OF_A_TASK, TASK),
    "statistics of the batch": ("class Net(Net):\n    def __init__(self): super().__init__(); self.layers.insert(1, nn.BatchNorm1d(8, track_running_stats=False))", {}),
    "pairs of a batch": ("class Net(Net):\n    def forward(self, x):\n        assert len(x) > 1\n        return super().forward(x)", {}),
    "neighbours in a batch": ("class Net(Net):\n    def forward(self, x): return super().forward(x[torch.cdist(x, x).topk(3, largest=False).indices].mean(1))", {}),
    "a loss that is a part of the model": (f"{CRITERION}{SET}\ndef build(config):\n    model = Net(); model.criterion = Loss()\n    return {{'model': model, 'train': Rows(), 'validation': Rows(), 'loss': model.criterion}}", TASK),
    "a loss by a network that is not trained": (CRITERION.replace("Linear(2, 2)", "Linear(2, 2).eval()"), {"loss": "mine:Loss"}),
    "a few samples without targets": ("class Net(Net):\n    def forward(self, x): return {'loss': super().forward(x).square().mean()}\ndef data(): return {'train': [*torch.ones(40, 4)], 'validation': [*torch.ones(3, 4)]}", {"returns": "loss"}),
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("program", RIGHT)
def test_a_program_that_is_right_is_not_refused(program: str, ended_here: Any) -> None:
    code, changes = RIGHT[program]
    run = ended_here(code, {**({} if "task" in changes else PARTS), **changes}, kind=RunKind.SMOKE, max_steps=2)
    assert run.status().state is RunState.COMPLETED, run.status().failure


TAKEN = {
    "int32": "self.y[i].int()", "bytes": "self.y[i].to(torch.uint8)", "yes or no": "self.y[i].bool()",
    "a column": "self.y[i : i + 1]", "a column of int32": "self.y[i : i + 1].int()", "plain numbers": "int(self.y[i])",
}  # fmt: skip


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize("loss", ["cross_entropy", "focal"])
def test_class_numbers_of_any_type_and_in_a_column_train_as_plain_ones(
    loss: str, open_session: Any, tmp_path: Path, mine: str
) -> None:
    values = {**PARTS, "loss": loss, "metrics": ["accuracy", "f1"]}
    found = {}
    for name, expression in {"plain": "self.y[i]", **TAKEN}.items():
        (tmp_path / f"{name.replace(' ', '_')}.py").write_text(mine + rows(f"{READ} return self.x[i], {expression}"))
        own = {
            part: {"use": f"{name.replace(' ', '_')}.py:{one}"} for part, one in (("model", "Net"), ("data", "data"))
        }
        found[name] = trained(open_session({**values, **own}))
    assert len({json.dumps(each, sort_keys=True) for each in found.values()}) == 1, found


@pytest.mark.requirement("PIPE-2")
def test_a_pair_of_tables_of_pandas_is_a_pair_of_arrays() -> None:
    frame = pd.DataFrame({"a": range(40), "b": range(40, 80), "y": [0, 1] * 20})
    splits = from_user((frame[["a", "b"]], frame["y"]), SplitSection(), source="own", seed=1)
    inputs, target = splits.samples["train"][0]
    assert (inputs[1] - inputs[0], target) == (40, inputs[0] % 2)


@pytest.mark.requirement("REPRO-6")
def test_samples_with_draws_of_their_own_are_told_and_keyed_ones_are_not() -> None:
    class Drawn(torch.utils.data.Dataset[Any]):
        def __init__(self, generator: torch.Generator | None) -> None:
            self.generator = generator

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return torch.rand(2, generator=self.generator)

    (note,) = notes_on_draws({"train": Drawn(torch.Generator()), "validation": Drawn(None)})
    assert "Sample 0 of train" in note
    assert "Drawn.__getitem__ draws from a generator of its own" in note


OWN_LOSS = """
class Tags(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.last = nn.Embedding(9, 4), nn.Linear(4, 3)
    def forward(self, x): return self.last(self.embedding(x))
def data():
    x = torch.randint(0, 9, (40, 6), generator=torch.Generator().manual_seed(0))
    return x, torch.where(torch.arange(40)[:, None] % 3 == 0, -100, x % 3)
def loss(output, target): return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())
"""


@pytest.mark.requirement("TRAIN-1", "DIAG-1")
def test_a_batch_of_which_no_target_counts_is_no_divergence(ended_here: Any) -> None:
    values = {**PARTS, "model": {"use": "mine:Tags"}, "loader": {"batch_size": 1}}
    run = ended_here(OWN_LOSS, values)
    assert run.status().state is RunState.COMPLETED, run.status().failure  # the built-in loss of such a batch is 0
    shutil.rmtree(run.path)
    own = ended_here(OWN_LOSS, {**values, "loss": "mine:loss"}).status()
    assert own.failure.category == "user_code"
    assert "all 6 targets of the batch are -100" in own.failure.message
    assert "learning_rate" not in own.failure.remedy + json.dumps(own.failure.details)


@pytest.mark.requirement("TRAIN-1")
def test_a_method_of_the_users_that_a_library_calls_otherwise_is_named_with_the_argument(tmp_path: Path) -> None:
    (tmp_path / "old_methods.py").write_text("class Old:\n    def compute_loss(self, model, inputs): return 1.0\n")
    sys.path.insert(0, str(tmp_path))
    try:
        import old_methods  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    for boundary in (user_code, library_code):
        with (
            pytest.raises(UserCodeError, match=r"Old.compute_loss\(self, model, inputs\) lacks `num_items`") as raised,
            boundary("Training", tmp_path),
        ):
            old_methods.Old().compute_loss(1, 2, num_items=3)
        assert "num_items=None" in raised.value.remedy


@pytest.mark.requirement("TRAIN-1")
def test_what_a_library_raises_is_the_users_and_what_we_raise_is_ours(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match="Training raised JSONDecodeError"), library_code("Training", tmp_path):
        json.loads("{")
    from trainwright.trainer.data.tensors import joined

    with pytest.raises(IndexError), library_code("Training", tmp_path):
        joined([], 0.0)
