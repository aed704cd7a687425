"""Pictures: files that no decoder understands, sizes far from the others, and files that are equal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.report import NotChecked
from trainwright.trainer.data.validation.values import severity_of

COLUMNS = ("path", "problem")
"""Of the frame that a source of pictures gives: one row a picture, `problem` empty where it can be read."""
ALLOWED_RATIO = 100
"""Pixels of the largest picture over those of the smallest one, above which a warning is worth it."""
ODD_RATIO = 10
"""Pixels of a picture that is named, over those of the median one, or these over its."""
SHOWN = 5


class Pictures(Family):
    """Pictures that can be read."""

    name = "pictures"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of a frame of pictures."""
        if not set(COLUMNS) <= context.kinds.keys():
            return
        bad = pl.col("problem").is_not_null() & (pl.col("problem").cast(pl.String) != "").fill_null(value=False)
        is_skipped = bool(context.options.get("skip_unreadable"))
        asks = {"corrupt": bad.sum(), "rows": pl.len(), "examples": _examples(bad)}
        severity = severity_of(context, "corrupt", "warning" if is_skipped else "error")
        yield Check("corrupt", "path", severity, asks, partial(_corrupt, is_skipped), offending=bad)
        if {"width", "height"} <= context.kinds.keys():
            yield _of_sizes(context, bad)
        if "digest" in context.kinds:
            yield from _of_copies(context, bad)

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield corrupt pictures, of pictures that no frame describes."""
        if context.source == "images" and not set(COLUMNS) <= context.kinds.keys():
            yield NotChecked(what="corrupt pictures", why="the source gives no frame of its pictures")


def _examples(which: pl.Expr) -> pl.Expr:
    return pl.col("path").filter(which).head(SHOWN).implode()


def _of_sizes(context: Context, bad: pl.Expr) -> Check:
    pixels = pl.col("width").cast(pl.Int64) * pl.col("height").cast(pl.Int64)
    median = pixels.filter(~bad).median()
    odd = ~bad & ((pixels > ODD_RATIO * median) | (pixels * ODD_RATIO < median))
    asks = {"smallest": pixels.filter(~bad).min(), "largest": pixels.filter(~bad).max()}
    asks |= {"odd": odd.sum(), "odd_examples": _examples(odd)}
    severity = severity_of(context, "picture_sizes", "warning")
    return Check("picture_sizes", None, severity, asks, partial(_sizes, ALLOWED_RATIO), offending=odd)


def _of_copies(context: Context, bad: pl.Expr) -> Iterable[Check]:
    """Yield checks of files with the same bytes; with other labels, where labels are classes and no masks."""
    copy = ~bad & pl.col("digest").is_duplicated()
    asks = {"copies": copy.sum(), "copy_examples": _examples(copy)}
    yield Check(
        "picture_copies", None, severity_of(context, "picture_copies", "warning"), asks, _copies, offending=copy
    )
    if "label" in context.kinds and not context.options.get("masks"):
        unlike = ~bad & (pl.col("label").n_unique().over("digest") > 1)
        asks = {"unlike": unlike.sum(), "unlike_examples": _examples(unlike)}
        severity = severity_of(context, "label_conflicts", "warning")
        yield Check("label_conflicts", None, severity, asks, _unlike, offending=unlike)


def _named(examples: Any) -> str:
    return ": " + ", ".join(map(str, examples)) if examples else ""


def _corrupt(is_skipped: bool, asked: Mapping[str, Any]) -> Finding:
    count, rows = int(asked["corrupt"] or 0), int(asked["rows"])
    told = f"{count} of {rows} pictures cannot be read{_named(asked['examples'])}"
    remedy = "Replace these files or take them out of the folder or table."
    remedy += (
        " They are left out of the samples." if is_skipped else " `data.args.skip_unreadable: true` leaves them out."
    )
    return Finding(count == 0, count, 0, count, told, remedy)


def _copies(asked: Mapping[str, Any]) -> Finding:
    count = int(asked["copies"] or 0)
    told = f"{count} pictures have the bytes of another one{_named(asked['copy_examples'])}"
    return Finding(count == 0, count, 0, count, told, "Keep one of each; until then all of them are in one split.")


def _unlike(asked: Mapping[str, Any]) -> Finding:
    count = int(asked["unlike"] or 0)
    told = f"{count} pictures have the bytes of one with another label{_named(asked['unlike_examples'])}"
    return Finding(count == 0, count, 0, count, told, "Look at them, and keep the one with the right label.")


def _sizes(allowed: int, asked: Mapping[str, Any]) -> Finding:
    smallest, largest, odd = asked["smallest"], asked["largest"], int(asked["odd"] or 0)
    if not smallest or not largest:
        return Finding(passed=True, text="no sizes are known")
    ratio = largest / smallest
    told = f"the largest picture has {ratio:.0f} times the pixels of the smallest ({largest} and {smallest})"
    told += f"; far from the median{_named(asked['odd_examples'])}" if odd else ""
    return Finding(ratio <= allowed, round(ratio, 2), allowed, odd, told, "See whether these are pictures of one kind.")
