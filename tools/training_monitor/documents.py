"""The enforced diagnostic documents: triggers and fixes that the monitor reads, in the file that an agent reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, Field, model_validator

from trainwright.tools.documents import SKILL, read_named
from trainwright.tools.training_monitor.signals import KNOWN
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.config import TrainingConfig, split_key
from trainwright.trainer.run.conditions import WORKER_SIGNALS, Condition, Severity, Strict, Trigger, Watched

DOCUMENTS = SKILL / "diagnostics"
INDEX = "README.md"
OPERATIONS = ("set", "multiply", "add", "raise_to", "lower_to", "bring_measured_to")
"""Ways in which a fix changes a key."""
FREE_SECTIONS = ("model.args", "data.args", "task.args")
"""Arguments of the user's callables: the schema does not know their names."""


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


class Change(Strict):
    """How one key of the configuration changes: exactly one operation, then the bounds."""

    set: bool | int | float | str | None = None
    multiply: float | None = Field(default=None, gt=0, strict=False)
    add: float | None = Field(default=None, strict=False)
    raise_to: float | None = Field(default=None, strict=False)
    """The larger of the present value and this one."""
    lower_to: float | None = Field(default=None, strict=False)
    """The smaller of the present value and this one; sets a key that is null."""
    bring_measured_to: float | None = Field(default=None, gt=0, strict=False)
    """Multiply by this ÷ what the alert measured: for a key in proportion to it."""
    minimum: float | None = Field(default=None, strict=False)
    maximum: float | None = Field(default=None, strict=False)

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        given = [name for name in OPERATIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(OPERATIONS)}; got {given or 'none'}")
        return self


class FixRule(Strict):
    """One remedy. Without `changes` it is a hint: only the code or the data can change it."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    text: str = Field(min_length=1)
    changes: dict[Annotated[str, AfterValidator(_known_key)], Change] = Field(default_factory=dict)
    together: bool = False
    """The changes only make sense all at once."""
    take_out: bool = False
    """The keys that the alert names go back to their defaults."""
    only_if: list[Condition] = Field(default_factory=list)
    """It is proposed where all of them hold."""

    @model_validator(mode="after")
    def _one_kind_of_change(self) -> Self:
        if self.take_out and self.changes:
            raise ValueError("give changes or take_out, not both")
        return self


class ScopeRule(Strict):
    """Keys that decide what is learned; a change of them is no cure of the alert, and has to be stated."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    text: str = Field(min_length=1)
    keys: Annotated[list[str], Field(min_length=1)]
    """Keys, or sections with all that no earlier rule names."""
    product: bool = False
    """The keys' product decides, not each of them."""


class Diagnostic(Strict):
    """One diagnostic document's front matter."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    title: str = Field(min_length=1)
    severity: Severity
    requirement: str = Field(pattern=r"^DIAG-\d+$")
    triggers: Annotated[list[Trigger], Field(min_length=1)]
    """The first of them that holds raises the alert."""
    fixes: Annotated[list[FixRule], Field(min_length=1)]
    scope: list[ScopeRule] = Field(default_factory=list)
    explains: list[str] = Field(default_factory=list)
    """Ids of diagnostics that follow from this one: where both are found, they are its consequences."""
    beyond_keys: Literal["worst_samples", "document"] | None = None
    """What to look at instead, a picture of the run or the document, where no key of the configuration cures it.

    Then none is proposed for its consequences either.
    """

    @model_validator(mode="after")
    def _no_key_where_none_cures(self) -> Self:
        if self.beyond_keys and (fixes := [fix.id for fix in self.fixes if fix.changes or fix.take_out]):
            raise ValueError(f"beyond_keys says that no key cures it, and these fixes change some: {', '.join(fixes)}")
        return self

    @model_validator(mode="after")
    def _signals_are_known(self) -> Self:
        of_triggers = [each for one in self.triggers for each in (one, *one.only_if, *one.critical_if, *one.info_if)]
        for condition in (*of_triggers, *(each for fix in self.fixes for each in fix.only_if)):
            if condition.signal not in KNOWN:
                raise ValueError(f"unknown signal {condition.signal!r}; known: {', '.join(sorted(KNOWN))}")
        return self

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
    return [read_named(path, Diagnostic) for path in paths]


def watched_by_worker() -> list[Watched]:
    """Return what a worker evaluates itself: the triggers whose signals it has, and what makes them critical there.

    Raises:
        NotFoundError, ConfigurationError: see `load_diagnostics`.
    """
    return [
        Watched(
            id=diagnostic.id,
            severity=diagnostic.severity,
            document=diagnostic.path,
            remedy=diagnostic.fixes[0].text,
            triggers=[_judged_there(trigger) for trigger in triggers],
        )
        for diagnostic in load_diagnostics()
        if (triggers := [trigger for trigger in diagnostic.triggers if trigger.signals <= WORKER_SIGNALS])
    ]


def _judged_there(trigger: Trigger) -> Trigger:
    harms = [harm for harm in trigger.critical_if if harm.signal in WORKER_SIGNALS]
    return trigger.model_copy(update={"critical_if": harms})


def diagnostics_digests(folder: Path = DOCUMENTS) -> dict[str, str]:
    """Return the digest of each diagnostic document's enforced part, by its id: triggers and fixes, not the prose.

    Raises:
        NotFoundError, ConfigurationError: see `load_diagnostics`.
    """
    return {
        diagnostic.id: digest_json(diagnostic.model_dump(mode="json", exclude={"scope"}))
        for diagnostic in load_diagnostics(folder)
    }
