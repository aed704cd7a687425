"""Metrics by name: what each is for and its bounds; computed by the clean room's code, from tensors on the CPU.

As scikit-learn has them (Pedregosa et al. 2011); bits per byte: Gao et al. 2020, arXiv:2101.00027. Free of numpy until
one is computed: the server reads the names.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import folded
from trainwright.trainer.clean_room.names import LEVELS

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Metric:
    """A named number over a split: `compute(outputs, targets)`, first dimension samples."""

    name: str
    compute: Callable[[Any, Any], Any]
    problem: Callable[[Any, Any, Sequence[str]], str] | None = None
    """Why it says nothing about outputs' targets, from (outputs, targets, names of classes); empty where it does."""
    user_defined: bool = False
    tasks: tuple[str, ...] = ()
    """The kinds of loss it makes sense with; empty: any."""
    of_loss: Callable[[float, float], float] | None = None
    """Value from (mean loss in nats, bytes per target): it then needs no outputs, and compute is never called."""
    of_texts: bool = False
    """Whether it compares texts that the model writes: it then needs no outputs, and compute is never called."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Lowest and highest value."""
    episodes: int = 0
    """How many it plays with the model, where it is compute(program, seed): it then needs no outputs."""
    minimize: bool = False
    """Whether lower is better."""
    classes: int | None = None
    """How many classes it compares; None: any number."""
    beyond: int = 0
    """Classes of which it says nothing: so many, or fewer."""
    of_groups: bool = False
    """Whether it is of the order of rows within groups: it then is compute(outputs, targets, groups)."""
    of_series: bool = False
    """Whether it is of forecasts of a series, by an error on the train rows; computed once it has that (`scaled`)."""
    naive_errors: tuple[float, ...] = ()
    """What the value one season before is off by on the train rows, of each target, for one of a series."""

    def fits(self, task: str | None, classes: int | None) -> bool:
        """Return whether it says anything of targets of this kind and of so many classes; None: not known."""
        is_of_task = task is None or not self.tasks or task in self.tasks
        return is_of_task and (classes is None or (self.classes in {None, classes} and classes > self.beyond))

    def scaled(self, naive_errors: tuple[float, ...]) -> Metric:
        """Return the metric of a series with the error on the train rows that it divides by."""

        def compute(outputs: Tensor, targets: Tensor) -> float:
            from trainwright.trainer.clean_room import metrics

            return metrics.compute(self.name, array(outputs), array(targets), naive_errors=naive_errors)

        return replace(self, compute=compute, naive_errors=naive_errors)

    @property
    def of_outputs(self) -> bool:
        """Whether it is computed from all outputs and targets, or sums over them."""
        return self.of_loss is None and not self.of_texts and not self.episodes


def predicted_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return class numbers, (samples, ...), of outputs (samples, classes, ...), where they are: on any device."""
    from trainwright.trainer.clean_room import counts

    predicted: Tensor = counts.predicted_classes(outputs, targets)
    return predicted


def _of_outputs(name: str, tasks: tuple[str, ...], bounds: tuple[float, float], **more: Any) -> Metric:
    def compute(outputs: Tensor, targets: Tensor, groups: Any = None) -> float:
        from trainwright.trainer.clean_room import metrics

        return metrics.compute(name, array(outputs), array(targets), groups)

    def problem(outputs: Tensor, targets: Tensor, names: Sequence[str]) -> str:
        from trainwright.trainer.clean_room import metrics

        kept, wanted = metrics.OF_OUTPUTS[name][0](array(outputs), array(targets)), array(targets)
        return metrics.problem_of(name, kept, wanted, names)

    return Metric(name, compute, problem, tasks=tasks, bounds=bounds, **more)


def _of_loss(name: str, lowest: float) -> Metric:
    def follow(mean_loss: float, bytes_per_target: float) -> float:
        from trainwright.trainer.clean_room import metrics

        return metrics.OF_LOSS[name](mean_loss, bytes_per_target)

    return Metric(name, _no_outputs, tasks=LANGUAGE, of_loss=follow, bounds=(lowest, math.inf), minimize=True)


def _of_texts(name: str, bounds: tuple[float, float], **more: Any) -> Metric:
    return Metric(name, _no_outputs, tasks=LANGUAGE, of_texts=True, bounds=bounds, **more)


def array(tensor: Tensor) -> Any:
    """Return a tensor, of any shape, as numpy's array: in the same memory on the CPU; numpy has no bfloat16."""
    plain = tensor.detach().cpu()
    if plain.is_floating_point() and plain.element_size() < 4:
        plain = plain.float()
    return plain.resolve_conj().resolve_neg().numpy()


def _no_outputs(*_: Any) -> float:
    raise AssertionError("computed from the mean loss, from texts, or with the error of a naive forecast")


SHORTEST, SLIP = 6, 0.85
"""Characters from which a metric's name can be misspelt, and difflib's ratio from which it is."""
CLASSES, NUMBERS, LANGUAGE = ("classification", "binary"), ("regression",), ("language_model",)
SHARE, CORRELATION, POSITIVE = (0.0, 1.0), (-1.0, 1.0), (0.0, math.inf)
OF_GROUPS = (
    "group_ndcg_at_10", "group_ndcg_at_5", "group_mrr", "group_map", "group_recall_at_10", "group_recall_at_5",
)  # fmt: skip
"""Metrics of the order of rows within groups, which a split by group names."""
ORDERED = ("regression", "binary", "classification")
"""Kinds of loss by which one score a row is learned."""
OF_CLASS_1 = ("f1_binary", "precision_binary", "recall_binary", "specificity", "f2_binary", "f05_binary")
"""Metrics of class number 1 of two."""
PER_CLASS = ("f1", "precision", "recall")
MASKS = ("dice", "foreground_iou", "dice_per_image", "iou_per_image")
"""Metrics of masks without their background, class 0."""
BUILT_IN: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _of_outputs("accuracy", CLASSES, SHARE),
        _of_outputs("balanced_accuracy", CLASSES, SHARE),
        _of_outputs("f1", CLASSES, SHARE),
        _of_outputs("matthews_correlation", CLASSES, CORRELATION),
        *(_of_outputs(name, CLASSES, SHARE, classes=2) for name in ("auc", "average_precision", *OF_CLASS_1)),
        *(_of_outputs(name, CLASSES, CORRELATION) for name in ("cohen_kappa", "quadratic_kappa")),
        *(_of_outputs(f"{name}_macro", CLASSES, SHARE) for name in ("precision", "recall")),
        *(_of_outputs(f"{name}_{of}", CLASSES, SHARE) for of in ("weighted", "micro") for name in PER_CLASS),
        *(_of_outputs(f"top_{most}_accuracy", ("classification",), SHARE, beyond=most) for most in (3, 5)),
        *(_of_outputs(name, ("classification",), SHARE, beyond=2) for name in ("mrr", "ndcg_at_10")),
        _of_outputs("log_loss", CLASSES, POSITIVE, minimize=True),
        _of_outputs("brier", CLASSES, (0.0, 2.0), minimize=True),
        _of_outputs("calibration_error", CLASSES, SHARE, minimize=True),
        _of_outputs("mean_iou", ("classification",), SHARE),
        *(_of_outputs(name, CLASSES, SHARE) for name in MASKS),
        _of_outputs("entity_f1", ("classification",), SHARE),
        _of_outputs("exact_match", ("classification",), SHARE),
        _of_outputs("span_f1", ("classification",), SHARE),
        *(_of_outputs(name, NUMBERS, POSITIVE, minimize=True) for name in ("mae", "mape", "rmse")),
        _of_outputs("r2", NUMBERS, (-math.inf, 1.0)),
        *(_of_outputs(name, NUMBERS, POSITIVE, minimize=True) for name in ("mse", "rmsle", "median_absolute_error")),
        _of_outputs("smape", NUMBERS, (0.0, 2.0), minimize=True),
        *(_of_outputs(f"pinball_{level}", NUMBERS, POSITIVE, minimize=True) for level in LEVELS),
        *(_of_outputs(f"coverage_error_{level}", NUMBERS, SHARE, minimize=True) for level in LEVELS),
        Metric("mase", _no_outputs, tasks=NUMBERS, bounds=POSITIVE, minimize=True, of_series=True),
        _of_outputs("psnr", NUMBERS, (-math.inf, 100.0)),
        _of_outputs("ssim", NUMBERS, CORRELATION),
        _of_outputs("explained_variance", NUMBERS, (-math.inf, 1.0)),
        *(_of_outputs(name, NUMBERS, CORRELATION) for name in ("pearson", "spearman")),
        _of_outputs("concordance", NUMBERS, SHARE),
        *(_of_outputs(name, ORDERED, SHARE, classes=2, of_groups=True) for name in OF_GROUPS),
        *(_of_texts(name, SHARE) for name in ("rouge_1", "rouge_2", "rouge_l", "bleu", "chrf")),
        *(_of_texts(name, POSITIVE, minimize=True) for name in ("wer", "cer")),
        _of_outputs("worst_r2", NUMBERS, (-math.inf, 1.0)),
        *(_of_outputs(f"worst_{name}", NUMBERS, POSITIVE, minimize=True) for name in ("mape", "mae", "rmse")),
        _of_loss("perplexity", 1.0),
        _of_loss("bits_per_byte", 0.0),
    )
}


def near_metrics(name: str, known: Iterable[str]) -> list[str]:
    """Return the known metric of which a name is a misspelling, in a list.

    `top_2_accuracy` beside top_3_accuracy and `precision_micro` beside precision_macro are other metrics: a target for
    one says nothing of the other.
    """
    long = {folded(one): one for one in known if len(folded(one)) >= SHORTEST and _marks(one) == _marks(name)}
    found = difflib.get_close_matches(folded(name), long, n=1, cutoff=SLIP) if len(folded(name)) >= SHORTEST else []
    return [long[one] for one in found]


def _marks(name: str) -> list[str]:
    return re.findall(r"\d|macro|micro", name.lower())


def quantile_of(name: str) -> float | None:
    """Return the quantile that a metric is of, 0.9 of pinball_90; None: of none."""
    found = re.fullmatch(r"(?:pinball|coverage_error)_(\d+)", name)
    return int(found[1]) / 100 if found else None


def built_in_of(name: str) -> Metric | None:
    """Return the built-in metric of a figure's name, of one of several tasks by its last part; None: none."""
    found = [own for own in BUILT_IN if name == own or name.endswith(f"_{own}")]
    return BUILT_IN[max(found, key=len)] if found else None


def built_in_metric(name: str) -> Metric:
    """Return a built-in metric by name. Raises KeyError."""
    return BUILT_IN[name]
