"""The enforced diagnostic documents: triggers and fixes that the monitor reads, in the file that an agent reads."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from trainwright.tools.documents import SKILL, read_document
from trainwright.tools.training_monitor.signals import LONGEST_WINDOW, SIGNALS
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError
from trainwright.trainer.base.traces import note
from trainwright.trainer.config import TrainingConfig, split_key

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENTS = SKILL / "diagnostics"
INDEX = "README.md"
FREE_SECTIONS = ("model.args", "data.args", "task.args")
"""Arguments of the user's callables: the schema does not know their names."""

PLACEHOLDERS = {"measured": 1.0, "threshold": 1.0, "count": 1, "window": 1, "step": 1, "epoch": 1, "detail": ""}
"""Values that a trigger's message may show."""


def _known_signal(name: str) -> str:
    if name not in SIGNALS:
        raise ValueError(f"unknown signal {name!r}; known: {', '.join(sorted(SIGNALS))}")
    return name


def _known_key(key: str) -> str:
    if not key.startswith(tuple(f"{section}." for section in FREE_SECTIONS)) and not _in_schema(key):
        raise ValueError(f"the configuration has no key {key!r}")
    return key


def _in_schema(key: str) -> bool:
    models: list[type[BaseModel]] = [TrainingConfig]
    *parents, last = split_key(key)
    for part in parents:
        annotations = [model.model_fields[part].annotation for model in models if part in model.model_fields]
        models = [section for annotation in annotations for section in _sections(annotation)]
    return any(last in model.model_fields for model in models)


def _sections(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for argument in get_args(annotation) for section in _sections(argument)]


def _require_fillable(message: str) -> None:
    try:
        message.format(**PLACEHOLDERS)
    except (KeyError, IndexError, ValueError) as error:
        raise ValueError(f"message uses something else than {', '.join(PLACEHOLDERS)}: {error!r}") from error


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Condition(_Strict):
    """A signal compared with a threshold over its last `window` samples."""

    signal: Annotated[str, AfterValidator(_known_signal)]
    comparison: Literal["above", "below", "at_least", "at_most"]
    threshold: Annotated[float, Field(strict=False)]
    statistic: Literal["each", "mean", "median"] = "each"
    """Compare every sample, or one number for the whole window."""
    window: int = Field(default=1, ge=1, le=LONGEST_WINDOW)
    """The last so many samples are evaluated (a sample: one step, epoch or reading, as the signal says)."""
    points: int = Field(default=1, ge=1)
    """So many samples must be past the threshold (`each`), or be there at all (`mean`, `median`)."""

    @model_validator(mode="after")
    def _points_fit_the_window(self) -> Self:
        if self.points > self.window:
            raise ValueError(f"points ({self.points}) must not exceed window ({self.window})")
        return self

    def holds(self, value: float) -> bool:
        """Whether one value is past the threshold. A value that is not finite is above every threshold."""
        if math.isnan(value):
            return self.comparison in {"above", "at_least"}
        value = round(value, 12)  # 1.0 - 0.85 is 0.15, not a little more
        return {
            "above": value > self.threshold,
            "at_least": value >= self.threshold,
            "below": value < self.threshold,
            "at_most": value <= self.threshold,
        }[self.comparison]


class Harm(Condition):
    """A condition that makes an alert critical, and how it is worded."""

    message: str
    """Follows the alert's own message; may use the names in PLACEHOLDERS."""

    @model_validator(mode="after")
    def _message_can_be_filled(self) -> Self:
        _require_fillable(self.message)
        return self


class Trigger(Condition):
    """A condition that raises the alert, if those in `only_if` hold too."""

    unit: str
    message: str
    """The measured beside the allowed value; may use the names in PLACEHOLDERS."""
    only_if: list[Condition] = Field(default_factory=list)
    critical_if: list[Harm] = Field(default_factory=list)
    """Any of them that holds makes the alert critical, whatever the document's severity."""

    @model_validator(mode="after")
    def _message_can_be_filled(self) -> Self:
        _require_fillable(self.message)
        if not re.search(r"{measured|{count", self.message) or "{threshold" not in self.message:
            raise ValueError("message must show {measured} or {count}, and {threshold}")
        return self


class Change(_Strict):
    """How one key of the configuration changes: exactly one operation, then the bounds."""

    set: bool | int | float | str | None = None
    multiply: float | None = Field(default=None, gt=0, strict=False)
    add: float | None = Field(default=None, strict=False)
    raise_to: float | None = Field(default=None, strict=False)
    """The larger of the present value and this one."""
    lower_to: float | None = Field(default=None, strict=False)
    """The smaller of the present value and this one; sets a key that is null."""
    minimum: float | None = Field(default=None, strict=False)
    maximum: float | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        given = [name for name in ("set", "multiply", "add", "raise_to", "lower_to") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of set, multiply, add, raise_to, lower_to; got {given or 'none'}")
        return self


class FixRule(_Strict):
    """One remedy. Without `changes` it is a hint: only the code or the data can change it."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    text: str = Field(min_length=1)
    changes: dict[Annotated[str, AfterValidator(_known_key)], Change] = Field(default_factory=dict)
    together: bool = False
    """The changes only make sense all at once."""
    take_out: bool = False
    """The keys that the alert names go back to their defaults."""

    @model_validator(mode="after")
    def _one_kind_of_change(self) -> Self:
        if self.take_out and self.changes:
            raise ValueError("give changes or take_out, not both")
        return self


class ScopeRule(_Strict):
    """Keys that decide what is learned; a change of them is no cure of the alert, and has to be stated."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    text: str = Field(min_length=1)
    keys: Annotated[list[str], Field(min_length=1)]
    """Keys, or sections with all that no earlier rule names."""
    product: bool = False
    """The keys' product decides, not each of them."""


class Diagnostic(_Strict):
    """One diagnostic document's front matter."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str = Field(min_length=1)
    severity: Literal["critical", "warning", "info"]
    requirement: str = Field(pattern=r"^DIAG-\d+$")
    triggers: Annotated[list[Trigger], Field(min_length=1)]
    """The first of them that holds raises the alert."""
    fixes: Annotated[list[FixRule], Field(min_length=1)]
    scope: list[ScopeRule] = Field(default_factory=list)

    @property
    def path(self) -> str:
        """The document's path relative to `skills/ml-trainer/`."""
        return f"diagnostics/{self.id}.md"


def load_diagnostics(folder: Path = DOCUMENTS) -> list[Diagnostic]:
    """Read every diagnostic document of the folder, in order of name; read again only when a file changes.

    Raises:
        NotFoundError: the folder holds no diagnostic document.
        ConfigurationError: a document does not fit the model, or its file is not named after its id.
    """
    paths = sorted(path for path in folder.glob("*.md") if path.name != INDEX)
    if not paths:
        raise NotFoundError(
            f"The folder {folder.name} holds no diagnostic documents.",
            remedy="Reinstall Trainwright: the monitor reads its thresholds from skills/ml-trainer/diagnostics/.",
        )
    for path in paths:
        note(path)
    return [_load(path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths]


def diagnostics_digests(folder: Path = DOCUMENTS) -> dict[str, str]:
    """Return the digest of each diagnostic document's enforced part, by its id: triggers and fixes, not the prose.

    Raises:
        NotFoundError, ConfigurationError: see `load_diagnostics`.
    """
    return {
        diagnostic.id: digest_json(diagnostic.model_dump(mode="json", exclude={"scope"}))
        for diagnostic in load_diagnostics(folder)
    }


@lru_cache(maxsize=256)
def _load(path: Path, _modified_ns: int, _size: int) -> Diagnostic:
    diagnostic, _ = read_document(path, Diagnostic)
    if diagnostic.id != path.stem:
        raise ConfigurationError(
            f"{path.name} has the id {diagnostic.id!r}; file and id must agree.",
            remedy=f"Rename the file to {diagnostic.id}.md or correct the id.",
        )
    return diagnostic
