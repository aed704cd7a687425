"""Subject of an analysis: a study's trials with its space and objective, read once from its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlalchemy.orm import Session

from trainwright.tools.figures.style import is_drawable
from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.analysis.importance import Importance, importance_of
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    PRUNED,
    RUNNING,
    TrialRecord,
    best_trial,
    pareto_front,
    trials_of,
)
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.config import Range, SearchSection

STATES = (COMPLETED, PRUNED, FAILED, RUNNING)


@dataclass(frozen=True)
class Subject:
    """What is analysed of a study."""

    name: str
    """Its handle: `digits/study-1`."""
    search: SearchSection
    metric: str
    direction: str
    trials: list[TrialRecord]

    @property
    def space(self) -> dict[str, Range]:
        """Ranges by dotted key."""
        return self.search.space

    @cached_property
    def completed(self) -> list[TrialRecord]:
        """Trials with a value that has a place on an axis, by number."""
        return [one for one in self.of(COMPLETED) if one.value is not None and is_drawable(one.value)]

    @cached_property
    def best(self) -> TrialRecord | None:
        """The best completed trial."""
        return best_trial(self.trials, self.direction, self.search.objectives)

    @cached_property
    def best_so_far(self) -> list[TrialRecord | None]:
        """The best completed trial up to each one."""
        places = range(1, len(self.trials) + 1)
        return [best_trial(self.trials[:place], self.direction, self.search.objectives) for place in places]

    @cached_property
    def front(self) -> list[TrialRecord]:
        """Trials that no other dominates, of a study with several objectives."""
        return pareto_front(self.trials, self.direction, self.search.objectives) if self.search.objectives else []

    @cached_property
    def importance(self) -> Importance:
        """Each parameter's share of the objective's variation."""
        return importance_of(self)

    def leading_keys(self, most: int) -> list[str]:
        """Return the keys that a picture shows: the most important first, and those of unknown importance by name."""
        ranked = self.importance.ranked
        return [*ranked, *(key for key in sorted(self.space) if key not in ranked)][:most]

    def of(self, state: str) -> list[TrialRecord]:
        """Return the trials of one state, by number."""
        return [trial for trial in self.trials if trial.state == state]

    def value(self, trial: TrialRecord) -> float | None:
        """Return a trial's value; of one without (pruned, failed, under way) that of its best epoch so far."""
        if trial.value is not None:
            return trial.value
        return best_value(trial.intermediate, self.direction)

    @property
    def counts(self) -> str:
        """How many trials ended in which way, in words: `17 completed, 3 pruned`."""
        found = ((len(self.of(state)), state) for state in STATES)
        return ", ".join(f"{count} {state}" for count, state in found if count) or "no trials"

    @property
    def title(self) -> str:
        """The study and what it looks for, for a picture's title."""
        return f"{self.name}, {self.direction} {self.metric}"


def subject_of(session: Session, study: Study) -> Subject:
    """Return the study as it stands in its tables. Raises ConflictError of an ablation study, which has no space."""
    if study.is_ablation:
        raise ConflictError(
            f"{study.id} is an ablation study: its runs compare levels of factors, and there is no space to draw.",
            remedy=f"tuning_status(study_id='{study.id}') gives its effects; ablation_results.md has the forest plot.",
            details={"next": {"tool": "tuning_status", "arguments": {"study_id": study.id}}},
        )
    return Subject(
        name=handles(session, [study.id]).get(study.id, study.id),
        search=SearchSection.model_validate(study.search),
        metric=study.objective["metric"],
        direction=study.objective["direction"],
        trials=trials_of(session, study.id),
    )
