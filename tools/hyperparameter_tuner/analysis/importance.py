"""Importance of each parameter: its share of the objective's variation over the completed trials, and its picture.

Two ways, which answer different questions. PED-ANOVA asks which parameters tell the best trials from the others, and
knows conditional parameters. fANOVA asks which ones the objective varies with over the whole space: a random forest
learns it, and its variance is taken apart; it needs every trial to have the parameter (TUNE-4).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import BLUE, NORMAL, ORANGE, SMALL, cut, label, new_figure, plain
from trainwright.tools.hyperparameter_tuner.memory_study import memory_study
from trainwright.trainer.base.canonical import digest_json

if TYPE_CHECKING:
    import optuna
    from matplotlib.figure import Figure

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

ENOUGH_TRIALS = 10
"""Completed trials below which no share is given: the best ones would be one or two. A choice, not a measurement."""
TOP_SHARE, TOP_TRIALS = 0.1, 5
"""The trials that PED-ANOVA calls the best: a tenth, and five at least, as its documentation advises."""
FOREST_SEED = 0
MAX_BARS = 12
BAR = 0.36
"""Height of a bar, of the place of 1 that each parameter has."""


@dataclass(frozen=True)
class Importance:
    """Shares by key, the largest first; each way's sum to 1."""

    ped_anova: dict[str, float] = field(default_factory=dict)
    fanova: dict[str, float] = field(default_factory=dict)
    trials: int = 0
    """Completed trials that they rest on."""
    note: str = ""
    """Why a way, or both, gave nothing for a key."""

    @property
    def ranked(self) -> list[str]:
        """Keys from the most important on: by the mean of their shares."""
        ways = [way for way in (self.ped_anova, self.fanova) if way]
        keys = sorted(set().union(*ways)) if ways else []
        return sorted(keys, key=lambda key: -sum(way.get(key, 0.0) for way in ways))


def importance_of(subject: Subject) -> Importance:
    """Return both importances of a study's parameters; empty with the reason where the trials do not tell.

    Source: Watanabe et al., "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces",
    IJCAI 2023; Hutter et al., "An Efficient Approach for Assessing Hyperparameter Importance", ICML 2014; both as
    implemented in Optuna.
    """
    trials, keys = subject.completed, sorted(subject.space)
    if why := _too_little(trials, keys):
        return Importance(trials=len(trials), note=why)
    study = memory_study(subject.space, subject.direction, trials)
    everywhere = [key for key in keys if all(key in trial.parameters for trial in trials)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # told here, in the note
        ped_anova = _shares(_ped_anova(len(trials)), study, None)
        fanova = _shares(_fanova(), study, everywhere) if len(everywhere) > 1 else {}
    conditional = [key for key in keys if key not in everywhere]
    note = f"fANOVA leaves out {', '.join(conditional)}: not every trial has it." if conditional else ""
    return Importance(ped_anova, fanova, len(trials), note)


def _too_little(trials: Sequence[TrialRecord], keys: Sequence[str]) -> str:
    """Return why nothing can be said; empty where something can."""
    if len(keys) < 2:
        return f"Only {keys[0]} was searched, so all of the variation is its own."
    if len(trials) < ENOUGH_TRIALS:
        return f"{len(trials)} completed trials are too few to say which parameter matters: it takes {ENOUGH_TRIALS}."
    if len({trial.value for trial in trials}) < 2:
        return f"All {len(trials)} completed trials have the same value: nothing varies."
    if len({digest_json(trial.parameters) for trial in trials}) < 2:
        return "All completed trials have the same parameters."
    return ""


def _ped_anova(count: int) -> optuna.importance.BaseImportanceEvaluator:
    from optuna.importance import PedAnovaImportanceEvaluator

    return PedAnovaImportanceEvaluator(target_quantile=max(TOP_SHARE, TOP_TRIALS / count))


def _fanova() -> optuna.importance.BaseImportanceEvaluator:
    from optuna.importance import FanovaImportanceEvaluator

    return FanovaImportanceEvaluator(seed=FOREST_SEED)


def _shares(evaluator: Any, study: optuna.Study, keys: list[str] | None) -> dict[str, float]:
    """Return each key's share; {} where the way finds no variation at all."""
    found = {key: float(value) for key, value in evaluator.evaluate(study, keys).items()}
    whole = sum(found.values())
    return (
        {key: value / whole for key, value in sorted(found.items(), key=lambda one: (-one[1], one[0]))}
        if whole > 0
        else {}
    )


def shares(subject: Subject) -> tuple[Figure, str, str]:
    """Draw each parameter's share by PED-ANOVA and fANOVA, the most important above."""
    found = subject.importance
    keys = found.ranked[:MAX_BARS]
    figure, [[axes]] = new_figure(1, 1, 1.6 + 0.5 * max(len(keys), 2))
    ways = {
        "PED-ANOVA": ("what tells the best trials from the others", found.ped_anova, BLUE, -BAR / 2),
        "fANOVA": ("what the value varies with", found.fanova, ORANGE, BAR / 2),
    }
    said = []
    for name, (asks, way, colour, shift) in ways.items():
        if way:
            places = [place + shift for place, key in enumerate(keys) if key in way]
            bars = axes.barh(
                places, [way[key] for key in keys if key in way], BAR, color=colour, label=f"{name}: {asks}"
            )
            axes.bar_label(bars, fmt="{:.0%}", padding=3, fontsize=SMALL)
            said.append(f"{name} {', '.join(f'{key} {share:.0%}' for key, share in way.items())}")
    label(axes, "", "share", "")
    axes.set_yticks(range(len(keys)), [plain(cut(key, 36)) for key in keys], fontsize=NORMAL)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.08 * max([*found.ped_anova.values(), *found.fanova.values(), 0.1]))
    axes.xaxis.set_major_formatter("{x:.0%}")
    title = f"Importance in {subject.title}, {found.trials} completed trials"
    return figure, title, "; ".join([*said, *([found.note] if found.note else [])])
