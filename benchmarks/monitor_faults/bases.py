"""Sound runs of six fields, of which the suite makes faulty ones: configurations by name and seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainwright.trainer.config import apply_changes

Values = dict[str, Any]
ACCURACY: Values = {"metrics": ["accuracy"], "selection": {"metric": "accuracy", "direction": "maximize"}}


def _plain(rate: float, epochs: int, batch: int, **sections: Any) -> Values:
    return {
        "optimizer": {"learning_rate": rate},
        "training": {"epochs": epochs},
        "loader": {"batch_size": batch},
        "logging": {"tensorboard": False, "every_n_steps": 5},
        "early_stopping": {"enabled": False},
        "checkpoints": {"checkpoint_every_n_epochs": 1000},
        **sections,
    }


def vision(seed: int) -> Values:
    """Digits with a small convolutional network."""
    data = {"use": "samples.py:digits", "args": {"seed": seed, "rows": 700}}
    return _plain(5e-3, 10, 64, model={"use": "cnn", "args": {"channels": [8, 16]}}, data=data, **ACCURACY)


def layers(seed: int) -> Values:
    """Digits with layers one after the other, written by the user."""
    data = {"use": "samples.py:digits", "args": {"seed": seed}}
    return _plain(2e-3, 10, 64, model={"use": "networks.py:Plain"}, data=data, **ACCURACY)


def table(seed: int) -> Values:
    """Measured columns and a class."""
    data = {"use": "samples.py:measurements", "args": {"seed": seed, "standardize": True}}
    model = {"use": "networks.py:Plain", "args": {"inputs": 10, "outputs": 2, "width": 32}}
    return _plain(3e-3, 12, 32, model=model, data=data, **ACCURACY)


def rows(seed: int) -> Values:  # noqa: ARG001 - the form of a base
    """Rows of a file (`rows.write_rows`), which are validated."""
    data = {"use": "csv", "args": {"path": "rows.csv", "target": "y"}}
    return _plain(3e-3, 10, 32, model={"use": "mlp", "args": {"hidden": [32]}}, data=data, **ACCURACY)


def numbers(seed: int) -> Values:
    """Columns and a number to predict."""
    data = {"use": "samples.py:prices", "args": {"seed": seed}}
    model = {"use": "networks.py:Number", "args": {"inputs": 8, "outputs": 1, "width": 32}}
    return _plain(3e-3, 12, 32, model=model, data=data, loss="mse", metrics=["r2"])


def text(seed: int) -> Values:
    """Sentences of two classes."""
    data = {"use": "samples.py:sentences", "args": {"seed": seed, "rows": 1500}}
    return _plain(3e-3, 6, 32, model={"use": "networks.py:Words"}, data=data, **ACCURACY)


def sequence(seed: int) -> Values:
    """Sequences through a recurrent network."""
    data = {"use": "samples.py:sums", "args": {"seed": seed}}
    return _plain(2e-3, 8, 32, model={"use": "networks.py:Recurrent"}, data=data, **ACCURACY)


def gpt(seed: int) -> Values:
    """A small language model with its norms after the blocks."""
    data = {"use": "samples.py:language", "args": {"seed": seed}}
    schedule = {"name": "cosine", "warmup_fraction": 0.1}
    model = {"use": "networks.py:Attentive"}
    return _plain(2e-3, 8, 24, model=model, data=data, loss="next_word.py:loss", schedule=schedule)


def contrastive(seed: int) -> Values:
    """Views of digits that should be alike."""
    objective = {"name": "contrastive", "outputs": 16, "augmentation": {"rotate_degrees": 10}}
    return _plain(
        3e-3, 6, 128, model={"use": "cnn", "args": {"channels": [8, 16]}}, objective=objective,
        data={"use": "samples.py:digits", "args": {"seed": seed, "rows": 800}},
    )  # fmt: skip


def gan(seed: int) -> Values:  # noqa: ARG001 - the form of a base
    """Points of a ring, by a generator and a discriminator."""
    return _plain(1e-3, 15, 32, task={"use": "tasks.py:gan", "args": {}})


BASES: dict[str, Callable[[int], Values]] = {
    base.__name__: base for base in (vision, layers, table, rows, numbers, text, sequence, gpt, contrastive, gan)
}


def configuration(base: str, seed: int, changes: Values) -> Values:
    """Return a base's configuration under a seed with changes by dotted key."""
    return apply_changes(BASES[base](seed), {**changes, "seed": seed})
