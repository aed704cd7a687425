"""Content of handover.yaml: what the ledger says, how the project stood, and apart from both what an agent says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import Field, ValidationError

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, near, near_matches
from trainwright.trainer.base.plain_yaml import PlainLoader
from trainwright.trainer.base.records import Closed
from trainwright.trainer.base.secret_scan import require_no_secrets

FILE = "handover.yaml"
"""In the project's folder; a newer one replaces it."""
DOCUMENT = "phases/handover.md"
MAX_CHARACTERS, MAX_TEXTS = 1000, 20
MAX_BYTES = 2**20
Role = Literal[
    "training-orchestrator", "training-architect", "ml-trainer",
    "data-specialist", "model-specialist", "deployment-specialist", "owner",
]  # fmt: skip
ROLES: tuple[str, ...] = get_args(Role)
MATERIAL: dict[str, tuple[str, ...]] = {
    "data-specialist": ("reproducibility_manifest.md", "diagnostic_report.md", "final_model/data_card.md"),
    "model-specialist": (
        "training_config.yaml", "baseline_results.md", "diagnostic_report.md", "tuning_results.md", "final_config.yaml",
    ),
    "deployment-specialist": ("final_model/*",),
}  # fmt: skip
"""Role to the recorded files that it works from, as patterns of names in the project's folder; others have tools."""
Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]


class Part(Closed):
    """A part of the document."""


class Words(Part):
    """What the agent that hands over says. No evidence: nothing of it was measured."""

    by: Role
    to: Role
    questions: list[Text] = Field(default=[], max_length=MAX_TEXTS)
    """What is open, for the one who takes over to answer."""
    notes: list[Text] = Field(default=[], max_length=MAX_TEXTS)


class GateFact(Part):
    """The newest decision on a gate."""

    phase: str
    outcome: str
    entry: int
    """Ledger sequence of the decision."""


class RunFact(Part):
    """A run as the ledger has it."""

    id: str
    kind: str
    state: str
    """As sealed; `under way` without a seal."""
    entry: int
    """Ledger sequence of the seal, else of the start."""
    certified: dict[str, float] = Field(default_factory=dict)
    """Validation metrics that the clean room computed from its program."""


class Facts(Part):
    """What the ledger's entries up to `ledger.entry` say; anyone with the workspace derives the same."""

    intent: str
    goal: dict[str, Any]
    configuration: int
    """Number of its version."""
    configuration_digest: str
    gates: list[GateFact]
    runs: list[RunFact]
    """The newest."""
    studies: dict[str, str] = Field(default_factory=dict)
    """Name to the state of its last entry."""
    owner: list[str] = Field(default_factory=list)
    """Requests to the owner, with the answer where there is one."""
    files: dict[str, str] = Field(default_factory=dict)
    """Digests of the recorded files that the one who takes over works from, by their names in the project's folder."""


class Standing(Part):
    """How the project stood when this was written, which changed code or data can alter without an entry."""

    phase: str
    finished: bool
    gates: dict[str, str]
    """Phase to its status, with what made a stale one stale."""
    next: dict[str, Any] | None = None
    """The call to make: tool, arguments, why."""


class LedgerPlace(Part):
    """The last entry that was read."""

    entry: int
    digest: str


class HandOver(Part):
    """The whole document."""

    format: Literal[1] = 1
    project: str
    written: datetime
    ledger: LedgerPlace
    facts: Facts
    standing: Standing
    words: Words

    def as_yaml(self) -> str:
        """Return the file's text."""
        head = HEAD.format(project=self.project, by=self.words.by)
        return head + yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=110)


HEAD = """\
# Written by the Trainwright server. `facts` were derived from the ledger, `standing` was measured at this time, and
# `words` are what {by} says, and no evidence. Check before you believe it: `trainwright handover {project} --check`, or
# `handover` in the answer of project_status. An edit of this file is found by its digest in the ledger.
"""


def read_words(given: Mapping[str, object], project: str) -> Words:
    """Return what an agent says, checked. Raises ConfigurationError: a field that does not fit, or a secret."""
    example = f"configure(project={project!r}, hand_over={{'by': 'training-architect', 'to': 'ml-trainer'}})"
    unknown = {key: str(given[key]) for key in ("by", "to") if key in given and given[key] not in ROLES}
    if unknown:
        key, value = next(iter(unknown.items()))
        nearest = {name: meant[0] for name, role in unknown.items() if (meant := near(role, ROLES))}
        same = f"configure(project={project!r}, hand_over={ ({**given} | nearest)!r})"
        raise ConfigurationError(
            f"hand_over.{key} {value!r} is no role here; roles are {', '.join(ROLES)}.{near_matches(value, ROLES)}",
            remedy=same if nearest.keys() == unknown.keys() else example, document=DOCUMENT,
        )  # fmt: skip
    if given.get("by") is not None and given.get("by") == given.get("to"):
        raise ConfigurationError(f"{given['by']} cannot hand over to itself.", remedy=example, document=DOCUMENT)
    require_no_secrets({f"hand_over.{name}": str(value) for name, value in given.items()})
    try:
        return Words.model_validate(given)
    except ValidationError as error:
        problems = [f"`{'.'.join(map(str, one['loc']))}`: {one['msg']}" for one in error.errors(include_url=False)]
        what = f"hand_over takes by, to, questions and notes; {'; '.join(problems[:5])}."
        raise ConfigurationError(what, remedy=example, document=DOCUMENT) from error


def read_handover(data: bytes) -> HandOver:
    """Return the document in a file's bytes. Raises IntegrityError saying what keeps it from being one."""
    remedy = "Read project_status instead; the agent that hands over writes it anew."
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"{len(data)} bytes")
        return HandOver.model_validate(yaml.load(data.decode(), Loader=PlainLoader))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValidationError, ValueError, RecursionError) as error:
        what = " ".join(str(error).split())[:200]
        raise IntegrityError(f"{FILE} is no hand-over: {what}", remedy=remedy, document=DOCUMENT) from error
