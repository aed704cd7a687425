"""Rivals of a program: outputs that something else gave for the same rows, by the same metrics, and paired with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .comparison import Comparison
from .counts import classes
from .intervals import bootstrap
from .paired import report_paired
from .rows import Array, RefusalError, Split, read_array
from .slices import metrics_over

CLASSES_ALONE = "it predicts classes, and nothing of how sure it is"


def rivals_beside(
    order: Mapping[str, Any], name: str, split: Split, compared: Sequence[Comparison], fresh: Callable[[], Comparison]
) -> dict[str, Any]:
    """Return {metrics, paired} of each rival that the order has for a split, by its name.

    Where outputs are kept, those of a rival are, in the same order of rows, in the file `kept`. One whose outputs are
    not of these rows has a `problem` in place of figures. Several tasks have no rivals.

    Args:
        name: of the split.
        compared: that of the program, whose outputs were all added.
        fresh: makes the same without any outputs.
    """
    rivals = [one for one in order.get("rivals") or [] if name in one["splits"]]
    if not rivals or len(compared) > 1 or split.target is None or split.target.shapes is not None:
        return {}
    found: dict[str, Any] = {}
    for one in rivals:
        try:
            outputs = _outputs(one, one["splits"][name], split)
            found[one["name"]] = _reported(one, outputs, split, compared[0], fresh())
            if order.get("keep_outputs") and (folder := Path(order["keep_outputs"]) / name).is_dir():
                found[one["name"]]["kept"] = f"rival_{len(found)}.npy"
                np.save(folder / found[one["name"]]["kept"], outputs)
        except RefusalError as error:
            found[one["name"]] = {"problem": error.problem}
        except (ValueError, IndexError, TypeError) as error:  # no comparison keeps a model from its figures
            found[one["name"]] = {"problem": f"its outputs do not fit the targets ({error})"}
    return found


def _outputs(one: Mapping[str, Any], kept: Mapping[str, Any], split: Split) -> Array:
    """Return a rival's outputs for the rows as they stand, (rows, ...): of all of a split's rows, or of those kept."""

    def arranged(record: Mapping[str, Any]) -> Array:
        values = read_array(Path(one["folder"]), record)
        values = values[split.chosen] if split.chosen is not None and kept.get("targets") else values
        if len(values) != split.rows:
            raise RefusalError(f"it answers {len(values)} rows, and {split.rows} were fixed", "")
        return values if split.order is None else values[split.order]

    try:
        outputs = arranged(kept["outputs"])
        targets = arranged(kept["targets"]) if kept.get("targets") else None
    except IndexError as error:
        raise RefusalError("it answers fewer rows than planning fixed", "") from error
    assert split.target is not None  # noqa: S101 - whoever calls has seen it
    wanted = split.target.rows(0, split.rows)
    if targets is not None and not _alike(targets, wanted):
        raise RefusalError("it was given other rows than planning fixed", "")
    return outputs


def _alike(targets: Array, wanted: Array) -> bool:
    if targets.size != wanted.size:
        return False
    return bool(np.array_equal(targets.reshape(wanted.shape).astype(float), wanted.astype(float), equal_nan=True))


def _reported(
    one: Mapping[str, Any], outputs: Array, split: Split, first: Comparison, other: Comparison
) -> dict[str, Any]:
    assert split.target is not None  # noqa: S101
    if one.get("is_of_classes"):
        unfit = [name for name in other.metrics if other.steps.get(name, (None,))[0] is not classes]
        other.unfit, other.loss, other.without_loss = dict.fromkeys(unfit, CLASSES_ALONE), None, CLASSES_ALONE
    other.add({"outputs": outputs}, split.target.rows(0, split.rows))
    found = {"metrics": dict(metrics_over([other], np.arange(split.rows)))}
    paired = report_paired(first, other, split.resampling)
    if first.without_loss is None and other.without_loss is None:
        between = bootstrap(lambda at: first.mean_loss(at) - other.mean_loss(at), 2 * split.rows, split.resampling)
        paired["intervals"] |= {} if between is None else {"loss": list(between)}
    return found | {"paired": paired}
