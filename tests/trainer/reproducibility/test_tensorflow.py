"""TensorFlow in user code: seeded before the import returns, so that even what the import draws is repeated."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.function_text import body_of

from trainwright.trainer.run import RunDirectory

pytestmark = pytest.mark.requirement("REPRO-1", "REPRO-2")
STAND_IN = {
    "tensorflow/__init__.py": """
        from tensorflow import config, random
        __version__ = "0.0"
    """,
    "tensorflow/random.py": """
        from random import Random, SystemRandom
        _drawn = SystemRandom()
        def set_seed(seed):
            global _drawn
            _drawn = Random(seed)
        def uniform(shape):
            return [_drawn.random() for _ in range(shape[0])]
    """,
    "tensorflow/config/__init__.py": "from tensorflow.config import experimental",
    "tensorflow/config/experimental.py": """
        is_deterministic = False
        def enable_op_determinism():
            global is_deterministic
            is_deterministic = True
    """,
}
"""As much of TensorFlow as is seeded: unseeded, it draws otherwise in each process."""
DRAWING = """
    import tensorflow as tf
    import torch
    AT_IMPORT = [float(value) for value in tf.random.uniform([3])]
    class Net(torch.nn.Linear):
        def __init__(self):
            super().__init__(64, 10)
            with torch.no_grad():
                self.bias[:3] += torch.tensor(AT_IMPORT)
                self.bias[3:6] += torch.tensor([float(value) for value in tf.random.uniform([3])])
        def forward(self, x):
            return super().forward(x.flatten(1))
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text))


@pytest.fixture(
    params=[
        "stand-in",
        pytest.param(
            "the real one",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
            ),
        ),
    ]
)
def drawing(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A code root whose model draws from TensorFlow, at its import and when it is built."""
    root = tmp_path / "project"
    write(root, {"drawing.py": DRAWING, **(STAND_IN if request.param == "stand-in" else {})})
    return root


@pytest.mark.slow
def test_what_user_code_draws_from_it_at_import_is_the_same_in_two_processes_and_other_for_another_seed(
    tmp_path: Path, drawing: Path, make_run: Any, work: Any, digits: dict[str, Any]
) -> None:
    weights = []
    for name, seed in (("first", 42), ("again", 42), ("other", 43)):
        values = {**digits, "seed": seed, "model": {"use": "drawing:Net"}, "training": {"epochs": 1}}
        run: RunDirectory = make_run(tmp_path / name, values, code_root=str(drawing))
        assert work(run) == 0, run.log.read_text()
        weights.append(run.evidence("summary")["weights_digest"])
        [note] = [event.data["text"] for event in run.events() if event.kind == "note"]
        assert "TensorFlow was imported, and seeded before anything drew from it" in note
    assert weights[0] == weights[1]
    assert weights[2] != weights[0]


def draw_at_import() -> None:
    import json
    import sys

    sys.path.insert(0, sys.argv[1])
    from trainwright.trainer.base import seeding

    seeding.seed_everything(5)
    with seeding.preserved():
        seeding.seed_everything(6)  # as data are built, under a seed of their own
        import tensorflow as tf
    after = [float(value) for value in tf.random.uniform([2])]
    seeding.seed_everything(5)
    again = [float(value) for value in tf.random.uniform([2])]
    loader = tf.__spec__.loader
    kept = "importlib" in type(loader).__module__ and loader is tf.__loader__
    print(json.dumps([after == again, kept, tf.config.experimental.is_deterministic]))


@pytest.mark.long
def test_it_is_deterministic_keeps_its_loader_and_has_the_runs_seed_again_after_the_data_were_built(
    tmp_path: Path,
) -> None:
    write(tmp_path, STAND_IN)
    command = [sys.executable, "-P", "-c", body_of(draw_at_import), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, True, True]


def seed_twice() -> None:
    import json
    import sys
    import types

    from trainwright.trainer.base import seeding

    absent = seeding.seed_everything(5)["tensorflow"]
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")  # as tests of other libraries put one there
    print(
        json.dumps(
            [
                absent,
                seeding.seed_everything(5)["tensorflow"],
                len([f for f in sys.meta_path if type(f).__module__ == seeding.__name__]),
            ]
        )
    )


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="TensorFlow is installed")
def test_where_it_is_not_installed_the_record_says_so_and_a_stand_in_is_not_called_seeded() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", body_of(seed_twice)], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [None, False, 1]
