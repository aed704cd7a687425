"""Goal of a plan: the metric and target that call or sentence name, or the question that settles them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from trainwright.tools.training_architect.facts import OF_VOCABULARY
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.training_architect.two_classes import class_beside, turned_round
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.names import LEVELS, WORST
from trainwright.trainer.config.goal import MAXIMIZE, MEASURED, MINIMIZE, corrected_metric, goal_problem
from trainwright.trainer.config.goal_words import Wanted, spoken_goals
from trainwright.trainer.config.metric_words import CLASS_METRICS, IN_UNITS, NUMBER_METRICS
from trainwright.trainer.metrics import BUILT_IN
from trainwright.trainer.metrics.built_in import MASKS, OF_CLASS_1, OF_GROUPS, PER_CLASS

OWN = "file.py:function"
OWN_METRIC = f"or a function of yours: metric={OWN!r} (configs/metrics.md)"
WHAT = {
    "accuracy": "share of right answers", "balanced_accuracy": "mean recall of the classes",
    "f1": "mean F1 of the classes", "auc": "area under the ROC curve", "matthews_correlation": "correlation, -1 to 1",
    "mean_iou": "mean overlap of the classes", "entity_f1": "F1 of whole entities", "span_f1": "F1 of answers' words",
    "exact_match": "share of answers right to the token", "mae": "mean error in the target's unit",
    "rmse": "root of the mean squared error, in the target's unit", "mape": "mean error as a share of the target",
    "r2": "share of the variance explained", "perplexity": "of the next token", "bits_per_byte": "of the text",
    "rouge_1": "shared words", "rouge_2": "shared pairs of words", "rouge_l": "longest common sequence",
    "bleu": "shared runs of up to 4 words, 0 to 1", "chrf": "shared runs of up to 6 characters, 0 to 1",
    "wer": "wrong words by words of the reference", "cer": "wrong characters by characters of the reference",
    "f1_binary": "F1 of class 1", "f2_binary": "F of class 1, recall counting twice",
    "f05_binary": "F of class 1, precision counting twice", "precision_binary": "precision of class 1",
    "recall_binary": "recall of class 1", "specificity": "recall of class 0",
    **{f"{name}_macro": "mean over classes" for name in ("precision", "recall")},
    **{f"{name}_weighted": "by the classes' rows" for name in PER_CLASS},
    **{f"{name}_micro": "of all labels together" for name in PER_CLASS},
    "average_precision": "area under precision and recall", "log_loss": "mean surprise, unweighted",
    "brier": "squared error of the probabilities", "calibration_error": "confidence beside the share that is right",
    "top_3_accuracy": "right among the three likeliest", "top_5_accuracy": "right among the five likeliest",
    "mrr": "mean of 1 / the right class's rank", "ndcg_at_10": "the same discounted by its logarithm, to rank 10",
    "cohen_kappa": "agreement beyond chance", "quadratic_kappa": "the same, of ordered classes",
    "foreground_iou": "without the background", "iou_per_image": "its mean over pictures",
    "dice": "overlap without the background", "dice_per_image": "its mean over pictures",
    **{f"pinball_{level}": f"pinball loss of the {level} % quantile" for level in LEVELS},
    **{f"coverage_error_{level}": f"how far from {level} % the share below it is" for level in LEVELS},
    "mse": "mean squared error", "median_absolute_error": "half of the errors are below it",
    "mase": "mae by that of repeating the last season, on the train rows",
    "smape": "error as a share of prediction and target", "rmsle": "rmse of the logarithms",
    "psnr": "noise in a picture, in decibels", "ssim": "similarity of pictures as they are seen",
    "explained_variance": "r2 whatever the offset", "pearson": "linear correlation", "spearman": "correlation of ranks",
    "concordance": "share of pairs in the right order", "loss": "the loss itself",
    "group_mrr": "mean of 1 / the first relevant row's place", "group_map": "mean precision down to each relevant row",
    **{f"group_ndcg_at_{most}": f"gain of the first {most} by that of the best order" for most in (5, 10)},
    **{f"group_recall_at_{most}": f"share of the relevant rows among the first {most}" for most in (5, 10)},
    **{f"worst_{name}": f"{name} of the worst of several targets" for name in ("r2", "mape", "mae", "rmse")},
}  # fmt: skip
"""Metrics in words, for questions."""
BETAS = {"f1_binary": 1.0, "f2_binary": 2.0, "f05_binary": 0.5}
NEEDLES = {"mae": 0.02, "rmse": 0.02, "mape": 0.02, "mse": 0.02**2}
"""Shares of what guessing is off by, below which an error is hardly ever reached."""
OF_WRITING = ("rouge_l", "rouge_1", "rouge_2", "bleu", "chrf", "wer", "cer")
OF_FORM = {"entity_f1": "token_classification", "span_f1": "question_answering", "exact_match": "question_answering",
           "mase": "series_regression", **dict.fromkeys(("mean_iou", *MASKS), "image_segmentation"),
           **dict.fromkeys(OF_WRITING, "seq2seq")}  # fmt: skip
"""Metrics of targets that one task alone has."""
ANYWHERE = ("loss", "linear_probe_accuracy", "neighbour_accuracy", "robust_accuracy")
ALWAYS_ONE = {"recall_binary": "precision_binary", "specificity": "recall_binary"}
"""Metrics that one answer for all makes perfect, and what keeps it from being given."""
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
    """Return the usual built-in metrics that fit a task and its number of classes, the most usual first."""
    return tuple(one for one in _metrics_of(task) if one == "loss" or BUILT_IN[one].fits(None, classes))


def _misfit(metric: str, task: str | None, classes: int | None, *, ranks: bool) -> str:
    """Return what a built-in metric says nothing of; empty where it is measured."""
    known, usual = BUILT_IN.get(metric), _metrics_of(task)
    if metric in OF_GROUPS and not ranks:
        return "rows that are not ranked within groups"
    if task is None or metric in ANYWHERE or known is None:
        return ""
    is_of_task = metric in usual or (OF_FORM.get(metric, task) == task != "question_answering")
    if not is_of_task or not known.fits(_kind_of(task), None):
        return task.replace("_", " ")
    return "" if known.fits(None, classes) else f"{classes} classes"


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
            *(OF_WRITING if task == "seq2seq" else ()),
        )
    return {
        "token_classification": ("entity_f1", "accuracy", "f1"),
        "question_answering": ("span_f1", "exact_match"),
        "image_segmentation": ("mean_iou", "f1", "accuracy", "balanced_accuracy"),
    }.get(task, CLASS_METRICS)


def kind_of_sentence(request: PlanRequest) -> str | None:
    """Return `regression` or `classification` where the metric that is wanted is of one kind alone."""
    first = next(iter(spoken_goals(request.intent).named), None) if request.metric is None else _as_word(request.metric)
    named = first.word.metric if first is not None else corrected_metric(request.metric or "")
    tasks = BUILT_IN[named].tasks if named in BUILT_IN and named not in {*OF_FORM, *OF_GROUPS} else ()
    return next((kind for kind in ("regression", "classification") if kind in tasks), None)


def read_goal(request: PlanRequest, task: str | None, facts: Mapping[str, Any]) -> GoalReading:
    """Return the goal that call and sentence name for a task, with a question where it names one that is not measured.

    Args:
        facts: of the data (reading.py): the classes of the column that is predicted, and their names where two.

    Raises:
        ConfigurationError: the call's metric is none.
    """
    spoken, classes, ranks = spoken_goals(request.intent), facts.get("classes"), bool(facts.get("ranks"))
    goal, fitting = GoalReading(), OF_GROUPS if ranks else metrics_of(task, classes)
    named = [_in_groups(one) if ranks else one for one in spoken.named]
    misfit = partial(_misfit, task=task, classes=None if ranks else classes, ranks=ranks)
    first = named[0] if named else None
    meant = first if request.metric is None else _as_word(request.metric)
    if meant is not None:
        _take_spoken(meant, task, misfit, goal)
    elif request.metric is not None:
        _take_named(request.metric, first, goal)
    else:
        _take_unnamed(spoken.bare, task, fitting, goal)
    if goal.metric is not None and (has := misfit(goal.metric)):
        near = [one for one in meant.word.near if not misfit(one)] if meant is not None else []
        goal.questions.append(_asked(f"{goal.metric} is not measured of {has}.", near or fitting))
        goal.metric = None
    if goal.metric in OF_CLASS_1:
        _settle_class(request, first, facts, goal)
    if goal.metric == "f1" and (names := facts.get("class_names")):
        told = f"f1 is the mean of both classes (macro); that of {names[1]!r} alone is f1_binary"
        goal.assumed = [*(one for one in goal.assumed if "(macro)" not in one), told]
    same = first if first is not None and _is_same(first, goal, request.metric) else None
    others = [one.words for one in named if one is not same and one.word.metric != goal.metric]
    if goal.metric is not None and others:
        goal.assumed.append(f"a goal has one metric: {goal.metric}; {', '.join(others)} is no part of it")
    of_sentence = same or spoken.bare
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


def _is_same(first: Wanted, goal: GoalReading, named: str | None) -> bool:
    """Return whether the sentence's number is of the settled metric: also of one of the user's of another name.

    Args:
        named: the call's metric.
    """
    is_open = None in {named, goal.metric, first.word.metric} or goal.own is not None
    return is_open or str(goal.metric).removeprefix(WORST) in {first.word.metric, *first.word.near}


def _as_word(metric: str) -> Wanted | None:
    """Return the call's metric as a sentence has it where it is no name of ours: `precision`, `WER`."""
    words = [] if corrected_metric(metric) in MEASURED or ".py:" in metric else spoken_goals(metric).named
    return next((one for one in words if one.words == metric.strip()), None)


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
            document="configs/metrics.md",
        )


def _better(direction: str) -> str:
    return "more" if direction == MAXIMIZE else "less"


def _in_groups(named: Wanted) -> Wanted:
    """Return a metric that a sentence names as the one of rows in groups, where there is one."""
    own = next((one for one in (named.word.metric, *named.word.near) if one in OF_GROUPS), None)
    if own is None:
        return named if named.word.metric else replace(named, word=replace(named.word, near=OF_GROUPS))
    return replace(named, word=replace(named.word, metric=own, near=(), note=""))


def _take_spoken(first: Wanted, task: str | None, misfit: Callable[[str], str], goal: GoalReading) -> None:
    """Take the sentence's metric where it is measured; else ask."""
    word = first.word
    metric = word.metric
    if metric == "f1" and word.name == "F1" and task in {"question_answering", "token_classification"}:
        metric = "span_f1" if task == "question_answering" else "entity_f1"
        goal.assumed.append(f"F1 was taken for {metric}: {WHAT[metric]}")
    elif metric is not None and word.note:
        goal.assumed.append(f"{first.words!r}: {word.note}")
    if first.is_percent and metric in IN_UNITS:
        goal.questions.append(_asked(f"{first.words!r} in percent is no {metric}, which is in the target's unit.",
                                     ("mape", metric)))  # fmt: skip
    elif metric is None:
        why = f" {word.note}." * bool(word.note)
        near = [name for name in word.near if not misfit(name)]
        goal.questions.append(_asked(f"{word.name} ({first.words!r}) {word.open}.{why}", near))
    else:
        goal.metric = metric


def _take_unnamed(bare: Wanted | None, task: str | None, fitting: tuple[str, ...], goal: GoalReading) -> None:
    """Take the usual metric of a ranking where none is named; ask where a value alone could be of several."""
    if fitting == OF_GROUPS:
        goal.metric = fitting[0]
        goal.assumed.append(f"no metric was named: {goal.metric}, {WHAT[goal.metric]}")
    elif bare is not None and not (bare.is_percent and bare.bound == "least" and _is_of_shares(task)):
        goal.questions.append(_asked(f"{bare.words!r} names no metric.", fitting))


def _settle_class(request: PlanRequest, first: Wanted | None, facts: Mapping[str, Any], goal: GoalReading) -> None:
    """Say which class a metric of class 1 is of; ask where the sentence names the other."""
    names: list[str] = facts.get("class_names") or []
    named = None if first is None else class_beside(request.intent, first.span, facts.get("class_numbers") or {})
    if named != 0 or request.metric is not None:
        of = f"{names[1]!r}, class 1; class 0 is {names[0]!r}" if names else "class number 1"
        goal.assumed.append(f"{goal.metric} is of {of}")
    elif goal.metric == "recall_binary":
        goal.metric = "specificity"
        goal.assumed.append(f"the recall of {names[0]!r}, class 0, is specificity")
    else:
        asked = f"{names[0]!r} is class 0, and {goal.metric} is of class 1, {names[1]!r}; {turned_round(names)}."
        goal.questions.append(_asked(asked, [str(goal.metric), "f1"]))
        goal.metric = None


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
    is_share = known[2] == 1.0 or goal.metric in {"mape", "smape", "wer", "cer"}
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
    share, classes, ones = facts.get("majority_share"), facts.get("classes"), facts.get("share_of_class_1")
    found: dict[str, float | None] = {
        **dict.fromkeys(("r2", "worst_r2", "explained_variance", "pearson", "spearman"), 0.0),
        "concordance": 0.5, "auc": 0.5,
        **dict.fromkeys(("matthews_correlation", "cohen_kappa", "quadratic_kappa"), 0.0),
        "mae": spread.get("mae"), "mape": spread.get("mape"), "rmse": spread.get("deviation"),
        **dict.fromkeys(("accuracy", *(f"{name}_micro" for name in PER_CLASS)), share),
    }  # fmt: skip
    if spread.get("deviation"):
        found["mse"] = spread["deviation"] ** 2
    if classes:
        found |= dict.fromkeys(("balanced_accuracy", "recall_macro"), 1 / classes)
        found |= {"f1": 2 * share / (1 + share) / classes, "precision_macro": share / classes} if share else {}
    if ones is not None:
        found |= {name: (1 + beta**2) * ones / (beta**2 * ones + 1) for name, beta in BETAS.items()}
        found |= {"precision_binary": ones, "average_precision": ones, "brier": ones * (1 - ones)}
    return found.get(metric)


def default_target(metric: str, facts: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return the middle between guessing and perfection, with its reason; None of metrics without a perfect end."""
    known = MEASURED.get(metric)
    if known is None or known[0] != MAXIMIZE or known[2] == math.inf or metric in OF_GROUPS:
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
    if metric in ALWAYS_ONE:
        said = f"one answer for all has {metric} 1: bound {ALWAYS_ONE[metric]} too (evaluation_gate.minimum)"
        return replace(goal, assumed=[*goal.assumed, said])
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
    if target < NEEDLES.get(metric, 0.0) * guess:
        of = f"the target's standard deviation is {spread['deviation']:.3g} ({spread['least']:g} to {spread['most']:g})"
        return (
            f"{metric} {target:g} is {target / guess:.2g} of what guessing is off by ({guess:.3g}); {of}. "
            f"{'A share (0.1 for 10 %) is mape.' if metric != 'mape' else 'mape is a share: 0.1 is 10 %.'}"
        )
    return None
