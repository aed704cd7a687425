"""What a run says of the user's parts: how the model is called, what was not measured, and why something does not fit."""

# ruff: noqa: E501 - tables of one case a line read better than wrapped ones

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.trainer.users import PARTS, TASK

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.run import RunState
from trainwright.trainer.user_code import guard
from trainwright.trainer.user_code.entries import resolve_entry


@pytest.mark.requirement("DIAG-4", "TRAIN-12")
def test_gradients_that_a_train_step_has_cleared_are_not_measured_and_not_zero(ended_here: Any) -> None:
    run = ended_here(
        """
        def build(config, context):
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            def validation_step(model, batch, context):
                return {"loss": nn.functional.cross_entropy(model(batch[0]), batch[1])}
            def train_step(model, batch, context):
                loss = validation_step(model, batch, context)["loss"]
                loss.backward()
                optimizer.step()
                optimizer.zero_grad(set_to_none=context.step % 2 == 0)
                return {"loss": loss.detach()}
            return {"model": model, "train": data(), "validation": data(16), "train_step": train_step,
                    "validation_step": validation_step, "optimizers": optimizer}
        """,
        {"task": {"use": "mine:build"}, "loader": {"batch_size": 8}, "training": {"epochs": 1}},
    )
    assert run.status().state.value == "completed", run.log.read_text()
    recorded = set(run.metrics().keys())
    assert "train/loss" in recorded
    assert "train/gradient_norm" not in recorded


@pytest.mark.requirement("TRAIN-1", "GATE-2")
def test_a_parameter_that_no_name_explains_is_refused_and_not_filled_with_the_target(ended_here: Any) -> None:
    run = ended_here("class Masked(Net):\n    def forward(self, x, mask): return self.layers(x) * mask[:, None]\n",
                {**PARTS, "model": {"use": "mine:Masked"}})  # fmt: skip
    failure = run.status().failure
    assert failure.category == "configuration"
    assert "Masked.forward(x, mask) requires `mask`, and a sample has 1 input and a target" in failure.message
    assert '{"x": ..., "mask": ..., "labels": ...}' in failure.remedy


CALLED = {
    "the inputs alone": (
        "",
        "mine:Net",
        ["Net.forward(x): inputs by their order, no target", "goes to loss cross_entropy", "input: float32 (batch, 4)"],
    ),
    "the target by its name": (
        "class Both(Net):\n    def forward(self, x, targets=None):\n        out = self.layers(x)\n        return (out, None) if targets is None else (out, nn.functional.cross_entropy(out, targets))\n",
        "mine:Both",
        [
            "Both.forward(x, targets): the target by the name `targets`",
            "a tensor (8, 2) torch.float32, is (logits, loss)",
        ],
    ),
}


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("what", CALLED)
def test_a_run_says_how_the_model_is_called_and_why(what: str, ended_here: Any) -> None:
    code, use, told = CALLED[what]
    run = ended_here(code, {**PARTS, "model": {"use": use}}, max_steps=1)
    lines = (run.evidence("resolved") or {})["told"]
    assert all(any(part in line for line in lines) for part in told), lines
    assert sum(map(len, lines)) <= 300


@pytest.mark.requirement("TRAIN-1")
def test_the_vocabulary_of_a_text_goes_to_the_argument_that_is_named_for_it(ended_here: Any, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text(" ".join(map(str, range(3000))))
    run = ended_here(
        "class Words(nn.Module):\n    def __init__(self, vocab_size):\n        super().__init__()\n        self.body = nn.Sequential(nn.Embedding(vocab_size, 8), nn.Linear(8, vocab_size))\n    def forward(self, idx): return self.body(idx)\n",
        {
            "model": {"use": "mine:Words"}, "loss": "next_token", "logging": {"tensorboard": False},
            "data": {"use": "text", "args": {"path": "a.txt", "tokenizer": "characters", "block_size": 16}},
        },
        max_steps=2,
    )  # fmt: skip
    assert run.status().state is RunState.COMPLETED, run.log.read_text()
    size = run.evidence("data")["text"]["vocabulary_size"]
    assert f"vocabulary: {size} tokens, passed as `vocab_size`" in run.evidence("resolved")["told"]


EXPLAINED = {
    "an index outside a vocabulary": (
        "class Words(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.body = nn.Sequential(nn.EmbeddingBag(5, 4), nn.Linear(4, 2))\n    def forward(self, x): return self.body(x)\ndef words(): return torch.arange(80).reshape(40, 2) % 7, torch.arange(40) % 2\n",
        {"model": {"use": "mine:Words"}, "data": {"use": "mine:words"}},
        ("is outside an embedding of 5 rows (0 to 4)", "at least 7 rows"),
    ),
    "a class outside the outputs": (
        "def build(config, context):\n    def step(model, batch, context): return {'loss': nn.functional.cross_entropy(model(batch[0]), batch[1] + 1)}\n    return {'model': Net(), 'train': data(), 'validation': data(16), 'step': step}\n",
        None,
        ("Target 2 is outside the output's 2 classes (0 to 1)", "3 outputs"),
    ),
    "an estimator of scikit-learn": (
        "def model():\n    from sklearn.linear_model import LogisticRegression\n    return LogisticRegression()\n",
        {"model": {"use": "mine:model"}},
        ("an estimator of scikit-learn (LogisticRegression)", "train it in a script of yours"),
    ),
    "a Trainer of transformers": (
        "class Trainer: pass\nTrainer.__module__ = 'transformers.trainer'\ndef build(config, context): return Trainer()\n",
        None,
        ("a Trainer of transformers", "trainer.train_dataset"),
    ),
    "a model of xgboost": (
        "class XGBClassifier: pass\nXGBClassifier.__module__ = 'xgboost.sklearn'\ndef build(config, context): return {'model': XGBClassifier(), 'train': data(), 'validation': data(16)}\n",
        None,
        ("a model of xgboost (XGBClassifier)", "as the goal"),
    ),
}


@pytest.mark.requirement("TRAIN-1", "GATE-2")
@pytest.mark.parametrize("what", EXPLAINED)
def test_what_does_not_fit_is_explained_with_its_value_and_what_to_do(what: str, ended_here: Any) -> None:
    code, changed, (message, remedy) = EXPLAINED[what]
    run = ended_here(code, TASK if changed is None else {**PARTS, **changed})
    failure = run.status().failure
    assert message in failure.message, failure
    assert remedy in failure.remedy


@pytest.mark.requirement("TRAIN-1", "GATE-2")
def test_a_long_message_does_not_push_the_innermost_frames_out(ended_here: Any) -> None:
    code = (
        "def deep(n):\n    if n % 2: return deep(n - 1)\n    if n: return deep(n-1)\n"
        "    raise ValueError('\\n'.join(map(str, range(100))))  # innermost\n"
        "def model():\n    return deep(40)\n"
    )
    traceback = ended_here(code, {**PARTS, "model": {"use": "mine:model"}}).status().failure.traceback
    assert "# innermost" in traceback
    assert "ValueError: 0" in traceback
    assert len(traceback.splitlines()) <= 40


@pytest.mark.requirement("TRAIN-1")
def test_a_folder_of_the_code_root_is_a_path_too(tmp_path: Path) -> None:
    from trainwright.trainer.base.errors import ConfigurationError
    from trainwright.trainer.user_code.context import Context

    (tmp_path / "pictures").mkdir()
    context = Context(1, tmp_path, "cpu")
    assert context.path("pictures") == (tmp_path / "pictures").resolve()
    for wrong in ("picture", ".."):
        with pytest.raises(ConfigurationError):
            context.path(wrong)


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
def test_an_error_without_a_line_of_the_users_sends_nobody_to_one(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def fails():\n    raise ValueError('of mine')\n")
    fails = resolve_entry("own.py:fails", tmp_path, key="data.use")
    for call, remedy in ((fails, guard.AT_ITS_LINE), (lambda: [].index(1), guard.IN_NO_LINE)):
        with pytest.raises(UserCodeError) as raised, guard.user_code("Reading samples", tmp_path):
            call()
        assert raised.value.remedy == remedy
