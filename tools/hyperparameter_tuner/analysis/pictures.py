"""Pictures of a study by kind, and what is said where one cannot be drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.figures.kinds import STUDY_KINDS, StudyKind
from trainwright.tools.figures.style import save
from trainwright.tools.hyperparameter_tuner.analysis.importance import shares
from trainwright.tools.hyperparameter_tuner.analysis.parameters import contour, parallel, slices
from trainwright.tools.hyperparameter_tuner.analysis.values import history, intermediate, pareto
from trainwright.trainer.base.errors import NotFoundError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject

ONE_OBJECTIVE = "the study has one objective; search.objectives names further ones."
DRAWN: dict[StudyKind, Callable[[Subject], tuple[Figure, str, str]]] = {
    "history": history,
    "slices": slices,
    "importance": shares,
    "parallel": parallel,
    "contour": contour,
    "intermediate": intermediate,
    "pareto": pareto,
}
"""By kind; each returns the figure, its title, and in words what it shows."""


def drawable_kinds(subject: Subject) -> list[StudyKind]:
    """Return the kinds that the study's trials are enough for, in the order in which a report shows them."""
    return [kind for kind in STUDY_KINDS if not why_not(subject, kind)]


def draw_study(kind: StudyKind, subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw one kind of picture of a study into a PNG; return its path, and in words what it shows.

    Raises:
        NotFoundError: the study's trials do not have what the kind draws; the remedy names the kinds that they have.
    """
    if why := why_not(subject, kind):
        can = drawable_kinds(subject)
        other = f"plot_metrics(study_id='{subject.name}', kind='{can[0]}')" if can else ""
        wait = f"tuning_status(study_id='{subject.name}', wait_seconds=50) follows the trials"
        named = f"{other} draws what there is; kinds that can be drawn: {', '.join(can)}. " if can else ""
        raise NotFoundError(f"{subject.name}: no picture of kind {kind!r}: {why}", remedy=f"{named}{wait}.")
    figure, title, said = DRAWN[kind](subject)
    return save(figure, title, path), said


def why_not(subject: Subject, kind: StudyKind) -> str:
    """Return why a kind cannot be drawn of the study; empty where it can."""
    valued = [one for one in subject.trials if subject.value(one) is not None]
    if kind == "importance":
        found = subject.importance
        return "" if found.ranked else found.note or "the trials show no variation that a parameter explains"
    if not valued:
        return f"no trial has a value yet ({subject.counts})."
    if kind in {"parallel", "contour"} and not subject.completed:
        return f"no trial has completed ({subject.counts})."
    if kind == "intermediate" and not any(one.intermediate for one in valued):
        return "the trials recorded no values by epoch."
    if kind == "pareto" and not subject.front:
        return f"no trial has completed ({subject.counts})." if subject.search.objectives else ONE_OBJECTIVE
    return _no_plane(subject) if kind == "contour" else ""


def _no_plane(subject: Subject) -> str:
    if len(subject.space) < 2:
        return f"it takes two parameters, and the study searches {next(iter(subject.space))} alone."
    keys = set(subject.leading_keys(2))
    if not any(keys <= one.parameters.keys() for one in subject.completed):
        return f"no completed trial has both {' and '.join(sorted(keys))}."
    return ""
