"""Goal of a plan: the metric and target that call or sentence name, or the question that settles them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.facts import OF_VOCABULARY
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal import MAXIMIZE, MEASURED, MINIMIZE, corrected_metric, goal_problem
from trainwright.trainer.config.goal_words import CLASS_METRICS, NUMBER_METRICS, Wanted, spoken_goals
from trainwright.trainer.metrics import BUILT_IN

if TYPE_CHECKING:
    from trainwright.tools.training_architect.request import PlanRequest

OWN = "file.py:function"
OWN_METRIC = f"or a function of yours: metric={OWN!r} (configs/losses.md)"
WHAT = {
    "accuracy": "share of right answers", "balanced_accuracy": "mean recall of the classes",
    "f1": "mean F1 of the classes", "auc": "area under the ROC curve", "matthews_correlation": "correlation, -1 to 1",
    "mean_iou": "mean overlap of the classes", "entity_f1": "F1 of whole entities", "span_f1": "F1 of answers' words",
    "exact_match": "share of answers right to the token", "mae": "mean error in the target's unit",
    "rmse": "root of the mean squared error, in the target's unit", "mape": "mean error as a share of the target",
    "r2": "share of the variance explained", "perplexity": "of the next token", "bits_per_byte": "of the text",
    "rouge_1": "shared words", "rouge_2": "shared pairs of words", "rouge_l": "longest common sequence",
    "loss": "the loss itself",
}  # fmt: skip
"""Metrics in words, for questions."""
NEEDLE = 0.02
"""Share of the target's own spread, below which an error is hardly ever reached."""
TARGET = "Which value of the metric would be good enough?"


@dataclass(frozen=True)
class Question:
    """Something decisive that neither the call nor the data says."""

    asks: str
    argument: str
    """data, model, task, metric or target; or one of `request.OF_DATA`."""
    choices: list[str] = field(default_factory=list)


@dataclass
class GoalReading:
    """What a plan's goal is as far as the call and its sentence say."""

    metric: str | None = None
    """Ours, or the function of the user's; None where nothing names one."""
    own: str | None = None
    """`file.py:function` of a metric of the user's."""
    target: float | None = None
    direction: str | None = None
    questions: list[Question] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


def metrics_of(task: str | None, classes: int | None = None) -> tuple[str, ...]:
    """Return the built-in metrics that fit a task and its number of classes, the most usual first."""
    return tuple(one for one in _metrics_of(task) if one == "loss" or BUILT_IN[one].fits(None, classes))


def _metrics_of(task: str | None) -> tuple[str, ...]:
    if task is None:
        return (*CLASS_METRICS, *NUMBER_METRICS)
    if task.endswith("_regression"):
        return NUMBER_METRICS
    if task in OF_VOCABULARY:
        return (
            "perplexity",
            "bits_per_byte",
            "loss",
            *(("rouge_l", "rouge_1", "rouge_2") if task == "seq2seq" else ()),
        )
    return {
        "token_classification": ("entity_f1", "accuracy", "f1"),
        "question_answering": ("span_f1", "exact_match"),
        "image_segmentation": ("mean_iou", "f1", "accuracy", "balanced_accuracy"),
    }.get(task, CLASS_METRICS)


def kind_of_sentence(request: PlanRequest) -> str | None:
    """Return `regression` or `classification` where the metric that is wanted is of one kind alone."""
    first = next(iter(spoken_goals(request.intent).named), None)
    named = corrected_metric(request.metric) if request.metric else first.word.metric if first else None
    if named in NUMBER_METRICS:
        return "regression"
    return "classification" if named in CLASS_METRICS else None


def read_goal(request: PlanRequest, task: str | None, classes: int | None) -> GoalReading:
    """Return the goal that call and sentence name for a task, with a question where it names one that is not measured.

    Args:
        classes: of the column that is predicted; None: none, or not known.

    Raises:
        ConfigurationError: the call's metric is none.
    """
    spoken = spoken_goals(request.intent)
    goal, fitting = GoalReading(), metrics_of(task, classes)
    first = spoken.named[0] if spoken.named else None
    if request.metric is not None:
        _take_named(request.metric, first, goal)
    elif first is not None:
        _take_spoken(first, task, fitting, goal)
    elif (bare := spoken.bare) is not None and not (bare.is_percent and bare.bound == "least" and _is_of_shares(task)):
        goal.questions.append(_asked(f"{bare.words!r} names no metric.", fitting))
    if task is not None and goal.metric in BUILT_IN and not BUILT_IN[goal.metric].fits(_kind_of(task), classes):
        has = f"{classes} classes" if classes and goal.metric in _metrics_of(task) else task.replace("_", " ")
        goal.questions.append(_asked(f"{goal.metric} is not measured of {has}.", fitting))
        goal.metric = None
    if goal.metric is not None and (others := [one.words for one in spoken.named if one.word.metric != goal.metric]):
        goal.assumed.append(f"a goal has one metric: {goal.metric}; {', '.join(others)} is no part of it")
    of_sentence = first if first is not None and _is_same(first, goal) else spoken.bare
    goal.target = request.target if request.target is not None else of_sentence.target if of_sentence else None
    if goal.target is not None and goal.metric is not None:
        _check_form(request, goal, of_sentence)
    metric = goal.metric or fitting[0]
    if task is not None and goal.target is None and goal.questions == [] and default_target(metric, {}) is None:
        way = "to fall" if MEASURED.get(metric, (goal.direction,))[0] == MINIMIZE else "to rise"
        choice = "" if goal.metric else f"; metric may be {', '.join(fitting)}"
        goal.questions.append(Question(f"{TARGET} ({metric}, which is {way}{choice})", "target"))
    return goal


def _kind_of(task: str) -> str:
    """Return the kind of loss that a task is trained with, as metrics name those that they fit."""
    if task in OF_VOCABULARY:
        return "language_model"
    return "regression" if task.endswith("_regression") else "classification"


def _is_of_shares(task: str | None) -> bool:
    """Whether each metric that a plan takes by itself for the task is a share, of which more is better."""
    return task is None or default_target(metrics_of(task)[0], {}) is not None


def _is_same(first: Wanted, goal: GoalReading) -> bool:
    """Whether the sentence's number is of the metric that was settled: also of one of the user's of another name."""
    return goal.own is not None or goal.metric is None or first.word.metric in {None, goal.metric} or goal.metric in {
        "span_f1", "entity_f1"
    }  # fmt: skip


def _take_named(metric: str, first: Wanted | None, goal: GoalReading) -> None:
    """Take the metric that the call names: ours, or a function of the user's."""
    if ".py:" in metric:
        goal.own, goal.metric = metric, metric.rpartition(":")[2]
        goal.direction = MINIMIZE if first is not None and first.bound == "most" else MAXIMIZE
        goal.assumed.append(f"{goal.metric} is a function of yours, of which {_better(goal.direction)} is better")
        return
    goal.metric = corrected_metric(metric)
    if goal.metric not in MEASURED:
        raise ConfigurationError(
            f"metric {metric[:60]!r} is not measured; built in: {', '.join(MEASURED)}.",
            remedy=f"Name one of them, {OWN_METRIC}.",
            document="configs/losses.md",
        )


def _better(direction: str) -> str:
    return "more" if direction == MAXIMIZE else "less"


def _take_spoken(first: Wanted, task: str | None, fitting: tuple[str, ...], goal: GoalReading) -> None:
    """Take the sentence's metric where it is measured and usual for the task; else ask."""
    word = first.word
    metric = word.metric
    if metric == "f1" and word.name == "F1" and task in {"question_answering", "token_classification"}:
        metric = "span_f1" if task == "question_answering" else "entity_f1"
        goal.assumed.append(f"F1 was taken for {metric}: {WHAT[metric]}")
    elif metric is not None and word.note:
        goal.assumed.append(f"{first.words!r}: {word.note}")
    if first.is_percent and metric in {"mae", "rmse"}:
        goal.questions.append(_asked(f"{first.words!r} in percent is no {metric}, which is in the target's unit.",
                                     ("mape", metric)))  # fmt: skip
    elif metric is None:
        near = [name for name in word.near if name in fitting or name == "loss"]
        goal.questions.append(
            _asked(f"{word.name} ({first.words!r}) is not built in, and no other metric is taken for it.", near)
        )
    elif task is not None and metric not in {*_metrics_of(task), "loss", "linear_probe_accuracy", "robust_accuracy"}:
        goal.questions.append(_asked(f"{first.words!r} is not measured of {task.replace('_', ' ')}.", fitting))
    else:
        goal.metric = metric


def _asked(why: str, metrics: Any) -> Question:
    possible = "; ".join(f"{name} ({WHAT[name]})" for name in metrics)
    return Question(f"{why} Which is the goal's metric? {possible or 'None of ours comes near it'}; {OWN_METRIC}",
                    "metric", [*metrics, OWN])  # fmt: skip


def _check_form(request: PlanRequest, goal: GoalReading, said: Wanted | None) -> None:
    """Take a target in percent as the share that it is, and ask where it bounds the metric from the wrong side."""
    assert goal.metric is not None  # noqa: S101
    assert goal.target is not None  # noqa: S101
    known = MEASURED.get(goal.metric)
    if known is None:
        return
    is_share = known[2] == 1.0 or goal.metric == "mape"
    if is_share and 1 < goal.target <= 100 and not (said and said.is_percent and request.target is None):
        goal.assumed.append(f"target {goal.target:g} was taken as {goal.target:g} %")
        goal.target = round(goal.target / 100, 12)
    problem = goal_problem({"metric": goal.metric, "direction": known[0], "target": goal.target})
    bound = said.bound if said is not None and request.target is None else None
    if bound is not None and (bound == "most") == (known[0] == MAXIMIZE):
        problem = f"{goal.metric} of at {bound} {goal.target:g} is wanted, and {_better(known[0])} of it is better"
    if said is not None and said.doubt and request.target is None:
        problem = f"{said.doubt} {goal.metric} {goal.target:g}"
    if problem is not None:
        goal.questions.append(Question(f"{problem[0].upper()}{problem[1:]}. Which value is good enough?", "target"))


def guessing(metric: str, facts: Mapping[str, Any]) -> float | None:
    """Return what the best answer that is the same for every row reaches; None where nothing says."""
    spread: dict[str, float] = facts.get("target_spread") or {}
    share, classes = facts.get("majority_share"), facts.get("classes")
    found: dict[str, float | None] = {
        "mae": spread.get("mae"), "mape": spread.get("mape"), "rmse": spread.get("deviation"), "r2": 0.0,
        "matthews_correlation": 0.0, "auc": 0.5, "accuracy": share,
    }  # fmt: skip
    if classes:
        found["balanced_accuracy"] = 1 / classes
        found["f1"] = 2 * share / (1 + share) / classes if share else None
    return found.get(metric)


def default_target(metric: str, facts: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return the middle between guessing and perfection, with its reason; None of metrics without a perfect end."""
    known = MEASURED.get(metric)
    if known is None or known[0] != MAXIMIZE or known[2] == math.inf:
        return None
    least = guessing(metric, facts)
    target = round((0.5 if least is None else least) * 0.5 + 0.5, 2)
    return target, f"target {target}: the middle between always the same answer and no error; name yours"


def bound_of(goal: GoalReading, facts: Mapping[str, Any], *, task: str | None, is_asked: bool) -> GoalReading:
    """Return the goal with what guessing reaches and the target's spread say of its bound.

    Args:
        task: whose first metric a target without a metric is held against.
        is_asked: whether the call itself names the target, so that nothing is asked again.
    """
    metric, target = goal.metric or metrics_of(task)[0], goal.target
    if target is None or metric not in MEASURED:
        return goal
    guess, direction = guessing(metric, facts), MEASURED[metric][0]
    problem = _problem_of(metric, target, guess, direction, facts.get("target_spread") or {})
    if problem is None:
        return goal
    if is_asked:
        return replace(goal, assumed=[*goal.assumed, problem])
    asked = Question(f"{problem} Which value is good enough? (target {target:g} again keeps it)", "target")
    return replace(goal, questions=[*goal.questions, asked])


def _problem_of(
    metric: str, target: float, guess: float | None, direction: str, spread: Mapping[str, float]
) -> str | None:  # fmt: skip
    if target == (MEASURED[metric][2] if direction == MAXIMIZE else 0.0):
        return f"{metric} {target:g} is reached without a single error alone."
    if guess is None:
        return None
    if (guess >= target) if direction == MAXIMIZE else (guess <= target):
        return f"Guessing meets it: the same answer for every row has {metric} {guess:.3g}, and the goal is {target:g}."
    if metric in NUMBER_METRICS and direction == MINIMIZE and target < NEEDLE * guess:
        of = f"the target's standard deviation is {spread['deviation']:.3g} ({spread['least']:g} to {spread['most']:g})"
        return (
            f"{metric} {target:g} is {target / guess:.2g} of what guessing is off by ({guess:.3g}); {of}. "
            f"{'A share (0.1 for 10 %) is mape.' if metric != 'mape' else 'mape is a share: 0.1 is 10 %.'}"
        )
    return None
