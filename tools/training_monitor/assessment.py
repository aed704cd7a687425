"""Assessment of a run's learning curves: whether to deploy, optimize or debug. Only recorded numbers."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from typing import Any, Literal

from trainwright.tools.training_monitor.chance_baseline import Beside, beside_guessing
from trainwright.tools.training_monitor.diagnosis import Alert, diagnose_record
from trainwright.tools.training_monitor.documents import Diagnostic, load_diagnostics
from trainwright.tools.training_monitor.few_rows import few_rows_told
from trainwright.tools.training_monitor.outdone import BesideRival, outdoing, what_helps
from trainwright.tools.training_monitor.record import (
    GRADIENT_NORM,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    RunRecord,
)
from trainwright.tools.training_monitor.signals.costs import gpu_utilisation
from trainwright.tools.training_monitor.signals.losses import loss_gap
from trainwright.tools.training_monitor.signals.scores import generalisation_gap
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.conditions import Sample, mean
from trainwright.trainer.run.specification import Goal

Fit = Literal["good", "outdone", "guessing", "overfitting", "underfitting", "diverged", "too_short"]
"""Outdone: nothing ails its curves, and a rival on the same rows is better beyond chance."""
Advice = Literal["deploy", "optimize", "debug"]
MISSED = "The goal is missed"
ALONE = "One epoch alone meets the goal"
TOO_SHORT, LONGER = "too_short", "train_longer"
"""The alert that is none beside "deploy", and its fix, which a final run can make."""
UNUSUAL_WORDS = {"guessing": "fits no better than guessing", "outdone": "no good fit"}
AROUND = 2
"""Epochs on each side of the kept one."""
RECENT = 5
"""Slopes are taken over so many last epochs."""


class GradientHealth(Frozen):
    """Total gradient norms before clipping, over all recorded steps."""

    steps: int
    median: float | None
    """Of at most 2,000 bucket means: exact up to 2,000 steps."""
    maximum: float | None
    non_finite_share: float


class ResourceUse(Frozen):
    """Means over the run's readings; None where nothing was measured (a GPU value without a GPU)."""

    gpu_percent: float | None
    cpu_percent: float | None
    data_wait_share: float | None
    samples_per_second: float | None
    memory_bytes: float | None


class Assessment(Frozen):
    """Learning-curve analysis of one run."""

    epochs: int
    best_epoch: int | None
    metric: str | None
    """The goal's metric where it was recorded, else the run's selection metric."""
    best_value: float | None
    """The metric at the best epoch (that of the kept checkpoint), not the best value of the metric by luck."""
    last_value: float | None
    train_loss_slope: float | None
    """Least-squares change per epoch over the last five epochs."""
    validation_loss_slope: float | None
    gap: float | None
    """Train-validation gap at the last epoch, as `diagnostics/overfitting.md` defines it (0.15 is 15 %)."""
    gap_at_best: float | None
    loss_gap: float | None
    """Share of the learned loss reduction that validation does not show, at the last epoch."""
    fit: Fit
    beside_guessing: str | None
    """The score beside that of a predictor that learns nothing, in words; None where none can be compared."""
    beside_rivals: list[str]
    """A clause on the strongest rival and on the user's reference; none without an evaluation of them."""
    gradient: GradientHealth
    resources: ResourceUse
    goal: Goal | None
    goal_met: bool | None
    recommendation: Advice
    reasons: list[str]
    alerts: list[Alert]

    @property
    def advice(self) -> Advice | Literal["decide"]:
        """The recommendation as it is told: a goal that a rival meets better leaves the release to be decided."""
        is_open = self.fit == "outdone" and self.recommendation == "deploy"
        return "decide" if is_open else self.recommendation

    def as_recorded(self) -> dict[str, Any]:
        """Return it as the ledger keeps it: the goal is there already, and so is the evaluation beside rivals."""
        return {
            "assessment": self.model_dump(mode="json", exclude={"alerts", "goal", "beside_rivals"}),
            "alerts": [alert.model_dump(mode="json") for alert in self.alerts],
        }


def assess(run: RunDirectory, goal: Goal | None = None, rivals: Sequence[BesideRival] = ()) -> Assessment:
    """Assess a run against the project's goal.

    Args:
        run: at any moment of its life.
        goal: the project's.
        rivals: beside which its program was evaluated.

    Raises:
        IntegrityError: the run's record is damaged.
        ConfigurationError: a diagnostic document is not valid.
    """
    return assess_record(RunRecord(run), load_diagnostics(), goal, rivals)


def assess_record(
    record: RunRecord, diagnostics: list[Diagnostic], goal: Goal | None = None, rivals: Sequence[BesideRival] = ()
) -> Assessment:
    """Assess a run that is already open. Raises IntegrityError."""
    alerts = diagnose_record(record, diagnostics)
    key = _goal_key(record, goal)
    values = record.by_epoch(key) if key else []
    best = record.best
    best_value = next((v.value for v in values if best and v.step == best.step and math.isfinite(v.value)), None)
    gaps, loss_gaps = generalisation_gap(record), loss_gap(record)
    gap_at_best = next((gap.value for gap in gaps if best and gap.step == best.step), None)
    comparable = goal is not None and key == f"validation/{goal.metric}"
    goal_met = goal.met_by(best_value) if goal is not None and comparable and best_value is not None else None
    epochs = record.by_epoch(TRAIN_LOSS) or record.by_epoch(VALIDATION_LOSS)
    guessing = beside_guessing(record, key.removeprefix("validation/") if key else None)
    fit = _fit(alerts, len(values), guessing)
    advice, reasons = _recommend(
        record,
        alerts,
        goal,
        value=best_value,
        goal_met=goal_met,
        kept_overfits=_kept_overfits(diagnostics, gap_at_best),
    )
    if fit == "guessing":
        advice = "debug" if advice == "optimize" and not goal_met else advice
        reasons.append(f"It fits no better than guessing: {guessing}.")
    if (ahead := outdoing(rivals, goal.metric if goal else None)) is not None:
        clause = ahead.clause(is_met=goal_met is True)
        helps = what_helps(ahead, record.config, underfits=any(alert.id == "underfitting" for alert in alerts))
        reasons.insert(1, f"{clause[0].upper()}{clause[1:]}. {helps}")
        fit = "outdone" if fit == "good" or (advice == "deploy" and fit != "guessing") else fit
    is_sound = fit in {"good", "outdone"}  # of one that overfits later the epochs behind are worse for that
    if goal is not None and goal_met and best and is_sound and (alone := _alone(values, best.step, goal)):
        reasons.insert(1, alone)
    if advice == "deploy":
        reasons += [_trainable_on(record, alert) for alert in alerts if alert.id == TOO_SHORT]
        alerts = [alert for alert in alerts if alert.id != TOO_SHORT]
    return Assessment(
        epochs=(epochs[-1].epoch or 0) if epochs else 0,
        best_epoch=best.epoch if best else None,
        metric=key.removeprefix("validation/") if key else None,
        best_value=best_value,
        last_value=values[-1].value if values and math.isfinite(values[-1].value) else None,
        train_loss_slope=_slope(record.by_epoch(TRAIN_LOSS)),
        validation_loss_slope=_slope(record.by_epoch(VALIDATION_LOSS)),
        gap=gaps[-1].value if gaps else None,
        gap_at_best=gap_at_best,
        loss_gap=loss_gaps[-1].value if loss_gaps else None,
        fit=fit,
        beside_guessing=str(guessing) if guessing is not None else None,
        beside_rivals=[one.clause(is_met=goal_met is True) for one in rivals],
        gradient=_gradient_health(record),
        resources=_resource_use(record),
        goal=goal,
        goal_met=goal_met,
        recommendation=advice,
        reasons=reasons,
        alerts=alerts,
    )


def _goal_key(record: RunRecord, goal: Goal | None) -> str | None:
    wished, recorded = f"validation/{goal.metric}" if goal else "", record.metrics.keys()
    return wished if wished in recorded else record.selection_key


def fit_in_words(fit: str, reasons: Sequence[str] = (), rivals: Sequence[str] = ()) -> str:
    """Return a fit as a headline says it: "good" only together with how far the goal is missed, where it is.

    Args:
        fit: of the assessment, as are the others.
        reasons: why it recommends what it does.
        rivals: a clause on each rival that it was evaluated beside.
    """
    words = UNUSUAL_WORDS.get(fit, f"{fit.replace('_', ' ')} fit")
    missed = next((reason.rstrip(".") for reason in reasons if reason.startswith(MISSED)), "")
    missed = missed or ALONE * any(reason.startswith(ALONE) for reason in reasons)
    goal = f", {'but' if fit == 'good' else 'and'} {missed[0].lower()}{missed[1:]}" if missed else ""
    return "; ".join([f"{words}{goal}", *rivals])


def _fit(alerts: list[Alert], validated_epochs: int, guessing: Beside | None) -> Fit:
    found = {alert.id for alert in alerts if alert.severity != "info"}
    if "nan_loss" in found:
        return "diverged"
    if guessing is not None and guessing.is_no_better:
        return "guessing"
    if "overfitting" in found:
        return "overfitting"
    if "underfitting" in found:
        return "underfitting"
    return "good" if validated_epochs > 1 else "too_short"


def _alone(values: Sequence[Sample], step: int, goal: Goal) -> str | None:
    """Return that all epochs around the kept one miss the goal, which it may then meet by the luck of its rows."""
    place = next((place for place, one in enumerate(values) if one.step == step), 0)
    before, after = values[max(place - AROUND, 0) : place], values[place + 1 : place + 1 + AROUND]
    around = [one.value for one in (*before, *after)]
    if not (before and after) or len(around) <= AROUND or any(map(goal.met_by, around)):
        return None
    return (
        f"{ALONE}: the {len(around)} around it have {min(around):.4g} to {max(around):.4g}, so part of its value is "
        "the luck of an epoch that was chosen by these rows. weight_averaging gives a steadier model, folds a steadier "
        "figure."
    )


def _kept_overfits(diagnostics: list[Diagnostic], gap_at_best: float | None) -> bool:
    """Whether the best epoch, whose checkpoint is kept, is past the overfitting document's threshold itself."""
    triggers = [t for d in diagnostics if d.id == "overfitting" for t in d.triggers if t.signal == "generalisation_gap"]
    return gap_at_best is None or any(trigger.holds(gap_at_best) for trigger in triggers)


def _recommend(
    record: RunRecord,
    alerts: list[Alert],
    goal: Goal | None,
    *,
    value: float | None,
    goal_met: bool | None,
    kept_overfits: bool,
) -> tuple[Advice, list[str]]:
    troubles = [f"{alert.title}: {alert.message}" for alert in alerts if alert.severity == "critical"]
    if record.status.state is RunState.INTERRUPTED:
        own = f"project={_project_of(record)!r}, run_id={record.run.run_id!r}"
        troubles.append(f"The run was interrupted: resume_training({own}).")
    elif record.status.state is RunState.FAILED:
        failure = record.status.failure
        troubles.append(f"The run failed: {failure.message if failure else 'no reason was recorded.'}")
    elif value is None:
        troubles.append("No epoch was validated: there is nothing to judge.")
    if troubles:
        return "debug", troubles
    if goal is None or goal_met is None:
        wanted = f"`{goal.metric}` was not recorded on validation" if goal else "The project states no goal"
        return "optimize", [f"{wanted}: nothing shows that the model is good enough."]
    sign = "≥" if goal.direction == "maximize" else "≤"
    measured = f"validation {goal.metric} {value:.4g} at the best epoch, goal {sign} {goal.target:g}"
    if not goal_met:
        few = few_rows_told(record.run)
        look = f"; {few[:-1]} (plot_metrics with kind='worst_samples' names them)" if few else ""
        return "optimize", [f"{MISSED}: {measured}{look}.", *_reasons_of(alerts)]
    blocking = {"underfitting", "chance_level", "labels_unrelated"} | ({"overfitting"} if kept_overfits else set())
    blocks = [alert for alert in alerts if alert.id in blocking and alert.severity != "info"]
    if blocks:
        return "optimize", [f"The goal is met ({measured}), but:", *_reasons_of(blocks)]
    rest = [f"It overfits only after the best epoch, whose checkpoint is kept: {a.message}" for a in alerts
            if a.id == "overfitting"]  # fmt: skip
    rest += _reasons_of([alert for alert in alerts if alert.id == "narrow_predictions"])
    return "deploy", [f"The goal is met: {measured}.", *rest]


def _trainable_on(record: RunRecord, alert: Alert) -> str:
    """Return how a run that is good enough, and was still improving at its end, may be trained longer."""
    changes = next((fix.changes for fix in alert.fixes if fix.id == LONGER), {})
    call = f'start_training(project={_project_of(record)!r}, kind="final", changes={json.dumps(changes)})'
    return (
        f"It was still improving at its end (the validation loss fell by {alert.measured:.1%} over the last three "
        f"epochs): the final run may train longer, and every gate stays passed{f': {call}' if changes else ''}."
    )


def _project_of(record: RunRecord) -> str:
    return record.run.path.parent.parent.name


def _reasons_of(alerts: list[Alert]) -> list[str]:
    return [f"{alert.title}: {alert.message}" for alert in alerts]


def _slope(samples: list[Sample]) -> float | None:
    recent = [sample for sample in samples[-RECENT:] if math.isfinite(sample.value)]
    if len(recent) < 2:
        return None
    try:
        slope = statistics.linear_regression([s.epoch or 0 for s in recent], [s.value for s in recent]).slope
    except (ValueError, OverflowError):  # epochs that do not advance, values at the end of floats
        return None
    return slope if math.isfinite(slope) else None


def _gradient_health(record: RunRecord) -> GradientHealth:
    buckets = [bucket for bucket in record.buckets(GRADIENT_NORM, 2000) if math.isfinite(bucket[1])]
    steps = record.metrics.count(GRADIENT_NORM)
    non_finite = len(record.non_finite(GRADIENT_NORM))
    return GradientHealth(
        steps=steps,
        median=statistics.median(value for _, value, _, _ in buckets) if buckets else None,
        maximum=max(high for _, _, _, high in buckets) if buckets else None,
        non_finite_share=non_finite / steps if steps else 0.0,
    )


def _resource_use(record: RunRecord) -> ResourceUse:
    def measured(key: str) -> float | None:
        values = [value for _, value, _, _ in record.buckets(key, 500) if math.isfinite(value)]
        return mean(values) if values else None

    return ResourceUse(
        gpu_percent=measured("system/gpu_percent") if gpu_utilisation(record) else None,
        cpu_percent=measured("system/cpu_percent"),
        data_wait_share=measured("throughput/data_wait_fraction"),
        samples_per_second=measured("throughput/samples_per_second"),
        memory_bytes=measured("system/memory_bytes"),
    )
