"""Label-error candidates: rows whose label is improbable beside the classes' own confidence (Northcutt et al. 2021).

A cheap model gives probabilities out of fold; cleanlab's confident learning counts and ranks the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.power import inputs_of as numbers_of
from trainwright.trainer.data.leaks.power import power_of
from trainwright.trainer.data.leaks.table import LeakTable, Target
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.families.leaks import frames_of, inputs_of, why
from trainwright.trainer.data.validation.report import MAX_ROWS, NotChecked, Verdict
from trainwright.trainer.data.validation.values import severity_of

MIN_ROWS = 100
MIN_OF_CLASS = 10
MAX_READ = 6_000
MAX_CLASSES = 50
TREES = 60
FOLDS = 5
SKILL = 0.65
"""Power of the cheap model (0: guessing, 1: certain) below which its doubts say nothing."""
MIN_SKILL = 0.35
"""The same where its doubts are about as many where it is surest as elsewhere, as those of drawn labels are."""
SUREST, ALIKE = 0.09, 0.45
"""Doubts among the quarter of rows that it is surest of: surely more, and so large a share of the unsure half's.
Classes that overlap, and outcomes that chance has a part in (who survives), leave that quarter right."""
UNLIKELY = 0.05
"""Probability, by the binomial test, of as many doubts in that quarter where there are not more than `SUREST`."""
MIN_SHARE = 0.01
"""Of the train rows: fewer candidates are what any model doubts."""


class LabelErrors(Family):
    """Labels that are probably wrong."""

    name = "label_errors"

    def found(self, context: Context) -> Iterable[Verdict | NotChecked]:
        """Return the verdict on the labels of the train split, or why its rows do not let them be checked."""
        if _unchecked(context):
            return
        for target in context.targets:
            yield self._of(context, target)

    def _of(self, context: Context, target: str) -> Verdict | NotChecked:
        checked = _candidates(context, target)
        if isinstance(checked, str):
            return NotChecked(what=f"label errors of {target}", why=checked)
        rows, read, power = checked
        share = len(rows) / read
        passed = len(rows) < max(3, MIN_SHARE * read)
        return Verdict(
            family=self.name,
            name="label_errors",
            column=target,
            split="train",
            severity=severity_of(context, "label_errors", "warning"),
            passed=passed,
            value=round(share, 6),
            bound=MIN_SHARE,
            count=0 if passed else len(rows),
            rows=[] if passed else rows[:MAX_ROWS],
            text=f"{len(rows)} of {read} train labels ({share:.1%}) are improbable to a model of the other rows (its "
            f"power: {power:.2f} of 1); the most improbable ones are named.",
            remedy=""
            if passed
            else "Look at the named rows. Correct a label that is wrong in the file; where the outcome "
            "is partly chance (who buys, who survives), or classes overlap, the labels are right and the rows stay.",
            details={"power": round(power, 4)},
        )

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Return why labels were not checked."""
        reason = _unchecked(context)
        if reason:
            yield NotChecked(what="label errors", why=reason)


def _unchecked(context: Context) -> str:
    if not context.targets or context.task == "regression":
        return "the data has no classes to predict"
    return why(context)


def _candidates(context: Context, target_name: str) -> tuple[list[int], int, float] | str:
    """Return places of the doubtful rows, worst first, how many rows were read, and the cheap model's power.

    Or why no row can be doubted.
    """
    train = frames_of(context)["train"].head(MAX_READ)
    table = LeakTable.of({"train": train}, target_name).with_columns(inputs_of(context) or ())
    target = table.target
    columns = [column for column in table.columns if not is_key(column) and column.kind != "text"]
    if target is None or (reason := _too_little(target, len(columns))):
        return "its train rows have one value" if target is None else reason
    shares = out_of_fold(numbers_of(columns), target.values)
    power = power_of(shares.argmax(axis=1), target)
    if power < SKILL and not (power >= MIN_SKILL and are_everywhere(target.values, shares)):
        return (
            f"a cheap model's power is {power:.2f} of 1, and {SKILL} is needed: add columns that tell more, or have "
            "some rows labelled twice, for many wrong labels lower it too"
        )
    return table.places(_doubtful(target.values, shares)), len(table.rows), power


def _too_little(target: Target, columns: int) -> str:
    """Return what the rows lack for a cheap model's doubts; empty where they lack nothing."""
    rows = len(target.values)
    if target.classes is None:
        return "it is a number and no class"
    if not columns:
        return "no other column holds a number, a date or a category"
    if rows < MIN_ROWS:
        return f"{rows} train rows have a label, and at least {MIN_ROWS} are needed"
    if len(target.classes) > MAX_CLASSES:
        return f"it has {len(target.classes)} classes, and of at most {MAX_CLASSES} labels are doubted"
    sizes = np.bincount(target.values)
    if sizes.min() < MIN_OF_CLASS:
        rarest = f"class {target.classes[int(sizes.argmin())]!r} has {sizes.min()} train rows"
        return f"{rarest}, and each needs {MIN_OF_CLASS}: collect more, merge it with another one, or drop it"
    return ""


def out_of_fold(inputs: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the probability of each class, (rows, classes), from models that did not see the row."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    model = ExtraTreesClassifier(TREES, min_samples_leaf=3, random_state=0)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found: np.ndarray[Any, Any] = cross_val_predict(model, inputs, labels, cv=folds, method="predict_proba")
    return found


def are_everywhere(labels: np.ndarray[Any, Any], shares: np.ndarray[Any, Any]) -> bool:
    """Return whether the labels contradict the model where it is surest about as often as where it is not."""
    from scipy.stats import binomtest

    surest_first = (-shares.max(axis=1)).argsort(kind="stable")
    wrong = (shares.argmax(axis=1) != labels)[surest_first]
    surest, others = wrong[: len(wrong) // 4], wrong[len(wrong) // 2 :]
    are_more = binomtest(int(surest.sum()), len(surest), SUREST, alternative="greater").pvalue < UNLIKELY
    return bool(are_more and surest.mean() >= ALIKE * others.mean())


def _doubtful(labels: np.ndarray[Any, Any], shares: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from cleanlab.filter import find_label_issues

    found: np.ndarray[Any, Any] = find_label_issues(
        labels, shares, return_indices_ranked_by="self_confidence", filter_by="both", n_jobs=1
    )
    return found
