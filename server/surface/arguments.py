"""Argument types that several tools share, and the run or study that a call means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from trainwright.server.bounded_wait import LONGEST_SECONDS

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace


Project = str
RunId = str
NewestRun = Annotated[str | None, Field(description="digits/baseline-2, digits, latest; default: the newest")]
Changes = Annotated[
    dict[str, Any], Field(description='Dotted keys, e.g. {"optimizer.learning_rate": 0.001}; null removes')
]


def _not_of_a_study(key: str | None) -> str | None:
    if key is not None and "/" in key:
        raise ValueError("a key of your own has no `/`: such keys name the runs that studies start")
    return key


IdempotencyKey = Annotated[
    str | None,
    Field(
        max_length=128,
        json_schema_extra={"pattern": "^[^/]+$"},
        description="The same key gives the same run",
    ),
    AfterValidator(_not_of_a_study),  # after the length, which pydantic then asks of texts and not of null
]
WaitSeconds = Annotated[float, Field(ge=0, le=LONGEST_SECONDS)]
Detail = Literal["concise", "full"]
Template = Literal["baseline", "tuning", "production"]
Phase = Literal["planning", "baseline", "diagnostics", "optimization", "finalization"]


class AskOwner(BaseModel):
    """What only the owner may grant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    limits: Annotated[dict[str, int | float] | None, Field(description='e.g. {"trials": 400}')] = None
    exemption: Annotated[
        str | None,
        Field(
            max_length=120, description="An operation that a run refused, as it names it; missing_git; alike_samples"
        ),
    ] = None
    accept: Annotated[
        float | None, Field(description="Accept the result from this value of the goal's metric on, below the goal")
    ] = None
    goal: Annotated[dict[Literal["target"], float] | None, Field(description="A revised target")] = None
    alert: Annotated[str | None, Field(max_length=60, description="Accept this open alert, by its id")] = None
    delete_project: Annotated[
        Literal[True] | None, Field(description="Delete the project, at the first call after the grant")
    ] = None


class Goal(BaseModel):
    """What the project is for, in one number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    metric: Annotated[str, Field(min_length=1, description="A validation metric, e.g. accuracy")]
    direction: Literal["maximize", "minimize"]
    target: Annotated[float, Field(allow_inf_nan=False)]


TO_RESUME = ("stopped", "interrupted")


def run_of(
    workspace: Workspace, name: str | None, project: str | None = None, *, prefer: tuple[str, ...] | None = None
) -> str:
    """Return the run's long id. Raises NotFoundError, with near handles."""
    from trainwright.tools.workspace.handles import ACTIVE_STATES, run_named
    from trainwright.tools.workspace.records import get_project

    def read() -> str:
        with workspace.snapshot() as session:
            if project is not None:
                get_project(session, project)
            return run_named(session, name, project=project, prefer=prefer or ACTIVE_STATES)

    return workspace.kept.rows(("run of", name, project, prefer), read)


def study_of(workspace: Workspace, name: str | None, project: str | None = None) -> str:
    """Return the study's long id. Raises NotFoundError, with near handles."""
    from trainwright.tools.workspace.handles import study_named

    with workspace.snapshot() as session:
        return study_named(session, name, project=project)


def names_study(name: str | None) -> bool:
    """Return whether the name of a run or study is that of a study: `digits/study-1`, or a long id of one."""
    return name is not None and name.rpartition("/")[2].startswith("study-")
