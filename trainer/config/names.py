"""The bare names that a configuration may give: built-in models, data, losses and metrics. Everything else is an entry.

The parts themselves need torch; these tables do not, and a test holds them to the parts.
"""

from __future__ import annotations

from typing import Any

from trainwright.trainer.base.near import near
from trainwright.trainer.config.arguments.data import DATA, WITH_TEXT
from trainwright.trainer.config.arguments.losses import LOSSES, NoArgs
from trainwright.trainer.config.arguments.models import MODELS
from trainwright.trainer.config.section import Section

BUILT_IN: dict[str, dict[str, type[Section]]] = {
    "model.use": MODELS,
    "data.use": DATA,
    "loss": LOSSES,
    "curriculum.use": dict.fromkeys(("centroid", "length"), NoArgs),
    "metrics": dict.fromkeys(
        ("accuracy", "balanced_accuracy", "f1", "auc", "mean_iou", "mae", "r2", "perplexity", "bits_per_byte"), NoArgs
    ),
}
"""Key to its names, each with the section that its `args` must fit."""


class UnknownNameError(ValueError):
    """A bare name that is not built in."""

    def __init__(self, message: str, *, key: str, name: str, near: str | None) -> None:
        super().__init__(message)
        self.key = key
        self.name = name
        self.near = near


def require_known(key: str, given: Any, place: str | None = None) -> None:
    """Check a name, or a section with the name as `use`, against the built-in names of the key.

    `place` is where it stands, if not under the key itself.

    Raises:
        UnknownNameError: a bare name that is not built in; says which is near.
    """
    name = given if isinstance(given, str) else given.use
    known = BUILT_IN[key]
    if ":" in name or name in known:
        return
    meant = near(name, known)
    hint = f"did you mean `{meant[0]}`?" if meant else f"built in: {', '.join(known)}."
    raise UnknownNameError(
        f'`{place or key}` = {name[:60]!r} is no built-in name; {hint} Your own is written "module:callable" or '
        '"path/file.py:callable"',
        key=place or key,
        name=name,
        near=meant[0] if meant else None,
    )


def arguments_of(key: str, name: str, args: dict[str, Any]) -> type[Section] | None:
    """Return the section that the arguments of a built-in part must fit; None for an entry, which takes its own."""
    if key == "data.use" and "text" in args and name in WITH_TEXT:
        return WITH_TEXT[name]
    return BUILT_IN[key].get(name)
