"""Leaks: what lets a model score on held-out rows as it will score nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.leaks import find_leaks
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.validation.check import ROW, Context, Family, among
from trainwright.trainer.data.validation.report import NotChecked, Verdict
from trainwright.trainer.data.validation.values import severity_of

MAX_ROWS = 20_000
"""Rows that are read, drawn at random of more; three quarters of them of the train split."""
MAX_TARGETS = 8
"""Of several, those whose leaks are looked for."""
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}
PLACE = "__row"
COLUMNS = "data.args.columns."
ID = re.compile(r"[A-Za-z_-]{0,12}\d+[\w-]{0,24}")
"""What names a row and no person: a number, or a word with one."""
UNLIKE = frozenset({"images", "text"})
"""Sources whose tables hold no inputs: their paths and sizes are the files'."""


class Leaks(Family):
    """The detectors of `trainer/data/leaks/`."""

    name = "leaks"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Return a verdict for each leak; one that is passed where there is none."""
        if why(context):
            return []
        frames, inputs = frames_of(context), inputs_of(context)
        told: dict[tuple[Any, ...], list[str]] = {}
        leaks: dict[tuple[Any, ...], Finding] = {}
        targets: Sequence[str | None] = context.targets[:MAX_TARGETS] or [None]
        for target in targets:
            others = [name for name in context.targets if name != target]
            alone = {name: each.drop(others) for name, each in frames.items()}
            apart, grouped_by = [context.split_by or ""], context.grouped_by
            for one in find_leaks(alone, target, inputs=inputs, apart=apart, grouped_by=grouped_by):
                key = (one.kind, one.column, one.message)
                leaks.setdefault(key, one)
                told.setdefault(key, []).append(str(target))
        named = (_of_targets(context, one, told[key]) for key, one in leaks.items())
        found = [_naming_pairs(context, _as_published(context, one)) for one in named]
        return [_verdict(context, one) for one in found] or [
            Verdict(family=self.name, name="leak", severity="warning", text="No leak was found.")
        ]

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Return why leaks were not looked for, or not everywhere."""
        reason = why(context)
        if reason:
            yield NotChecked(what="leaks", why=reason)
        elif sum(map(len, context.splits.values())) > MAX_ROWS:
            yield NotChecked(what="leaks in the other rows", why=f"{MAX_ROWS} rows were read, drawn at random")
        if not reason and len(context.targets) > MAX_TARGETS:
            left = ", ".join(context.targets[MAX_TARGETS:])
            yield NotChecked(what=f"leaks of {left}", why=f"those of the first {MAX_TARGETS} targets are looked for")


def why(context: Context) -> str:
    """Return why leaks are not looked for; empty where they are."""
    if context.source in UNLIKE:
        return f"the source {context.source} has no table of inputs; near-duplicates are compared when rows are split"
    if context.options.get("series"):
        return "windows see what was before their horizons alone, and no horizon is in two splits"
    if not context.splits.get("train", ()).__len__() or len(context.splits) < 2:
        return "which rows are held out is not known"
    return ""


def inputs_of(context: Context) -> list[str] | None:
    """Return the columns that the model sees; None: all."""
    options = context.options
    if isinstance(options.get("text"), str):
        return [options["text"]]
    features = options.get("features")
    apart = {*context.targets, context.split_by}
    chosen = list(features) if features else [name for name in context.kinds if name not in apart]
    columns = options.get("columns")
    ignored = {name for name, kind in columns.items() if _is_ignored(kind)} if isinstance(columns, dict) else set()
    return [name for name in chosen if name not in ignored]


def _is_ignored(column: Any) -> bool:
    return column == "ignore" or (isinstance(column, dict) and column.get("kind") == "ignore")


def frames_of(context: Context) -> dict[str, pl.DataFrame]:
    """Return rows by split with their places in the source, a bounded number of them."""
    names = [name for name in SHARES if len(context.splits.get(name, ()))]
    total = sum(len(context.splits[name]) for name in names)
    chosen = {name: _drawn(context.splits[name], name, total) for name in names}
    rows = np.sort(np.concatenate(list(chosen.values())))
    numbered = context.numbered.filter(among(rows)).rename({ROW: PLACE}).collect(engine="streaming")
    return {
        name: numbered.filter(pl.col(PLACE).is_in(pl.Series(places).cast(pl.Int64).implode()))
        for name, places in chosen.items()
    }


def _drawn(places: np.ndarray[Any, Any], name: str, total: int) -> np.ndarray[Any, Any]:
    most = len(places) if total <= MAX_ROWS else int(MAX_ROWS * SHARES[name])
    if len(places) <= most:
        return np.asarray(places)
    return np.sort(np.random.default_rng(len(places)).choice(places, most, replace=False))


def changes_of(context: Context, one: Finding) -> dict[str, Any]:
    """Return the change of the configuration that removes a leak, in the keys that the source has; empty: none."""
    if not any(key.startswith(COLUMNS) for key in one.changes):
        return one.changes if context.source and not _is_settled(context, one) else {}
    return without_columns(context, [key.removeprefix(COLUMNS) for key in one.changes])


def without_columns(context: Context, columns: Sequence[str]) -> dict[str, Any]:
    """Return the change that takes columns out of the inputs, in the keys that the source has; empty: none."""
    if context.source not in SOURCES:
        return {}
    keys = SOURCES[context.source].form_of(dict(context.options)).model_fields
    rest = [name for name in inputs_of(context) or [] if name not in columns]
    if "columns" in keys and not context.options.get("features"):
        return {"data.args.columns": {**(context.options.get("columns") or {}), **dict.fromkeys(columns, "ignore")}}
    return {"data.args.features": rest} if "features" in keys and rest else {}


def _of_targets(context: Context, one: Finding, told: list[str]) -> Finding:
    """Return a finding that names which of several targets it is of; one that is of all of them as it is."""
    if len(told) >= len(context.targets[:MAX_TARGETS]):
        return one
    return one.model_copy(update={"message": f"Of the target {', '.join(map(repr, told))}: {one.message}"})


def _is_settled(context: Context, one: Finding) -> bool:
    """Whether the change against a leak is in force, so that the leak is what it leaves."""
    return bool(one.changes) and all(context.settled.get(key) == value for key, value in one.changes.items())


def _naming_pairs(context: Context, one: Finding) -> Finding:
    """Return a finding of rows that are alike with the first of them, by their ids where a column has some."""
    if not one.pairs:
        return one
    rows = np.unique(one.pairs)
    table = context.numbered.filter(among(rows)).collect(engine="streaming")
    known = {name: kind for name, kind in context.kinds.items() if name not in context.targets}
    names = [name for name, kind in known.items() if kind in {"text", "integer"}]
    counts = context.frame.select(pl.len().alias(ROW), pl.col(names).n_unique()).collect(engine="streaming").row(0)
    key = next((name for name, count in zip(names, counts[1:], strict=True) if count == counts[0]), None)
    if key is None or not all(ID.fullmatch(str(cell)) for cell in table[key]):
        key = ROW
    told = {row: f"{'row' if key == ROW else key} {cell!r}" for row, cell in zip(table[ROW], table[key], strict=True)}
    pairs = "; ".join(f"{told[row]} has those of {told[other]}" for row, other in one.pairs)
    return one.model_copy(update={"message": f"{one.message.rstrip('.')}: {pairs}."})


def _as_published(context: Context, one: Finding) -> Finding:
    """Return a finding of scaled columns as information where the source declares that its publisher scaled them."""
    how = SOURCES[context.source].scaled_by_publisher if context.source in SOURCES else ""
    if not how or one.kind != "preprocessing" or one.column is not None:
        return one
    message = f"{one.message} Its publisher did it: {how}. Every figure on these data that you may compare with has it."
    remedy = "Nothing is to be done here; scale rows of your own by the train rows alone, as the engine does."
    return one.model_copy(update={"severity": "info", "message": message, "remedy": remedy})


def _verdict(context: Context, one: Finding) -> Verdict:
    changes = changes_of(context, one)
    remedy = one.remedy.replace(str(one.changes), json.dumps(changes)) if changes else one.remedy
    if _is_settled(context, one):
        remedy = (
            f"{', '.join(one.changes)} is set, and leaves these: keep one of each in the file, or split by a group."
        )
    return Verdict(
        family=Leaks.name,
        name=f"leak_{one.kind}",
        column=one.column,
        severity=severity_of(context, f"leak_{one.kind}", one.severity),
        passed=False,
        value=one.measured,
        bound=one.bound,
        count=one.count,
        rows=one.rows,
        text=one.message,
        remedy=remedy,
        kind=one.kind,
        # An honest column beside a leak is worth something too: what it costs to leave out is no price of a leak.
        details={"changes": changes} if changes and one.kind != "sibling" else {},
    )
