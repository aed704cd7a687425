"""Episodes that a function of the user's plays with the exported program alone, on seeds that the server draws.

They are drawn when the program is written already, one number for each split and metric, and the ledger keeps them:
nobody trained for these seeds, and whoever holds the program plays the same episodes again.
"""

from __future__ import annotations

import math
import secrets
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.tools.evaluation.own_metrics import OWN, copied, run_apart
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.ledger import ProjectFacts
from trainwright.trainer.base.section import EpisodesEntry, episode_entries
from trainwright.trainer.clean_room.episodes import interval_of, spread_of
from trainwright.trainer.metrics.evaluate import is_taken
from trainwright.trainer.run import RunKind

WORKER = "trainwright.trainer.jobs.episodes"
EPISODES = "episodes"
"""Key of an evaluated split: {metric: {count, drawn}}."""
IN_VAIN = "drawn_in_vain"
"""The same of functions that failed: {metric: drawn}."""
DRAWN_BITS = 48
"""Of the number from which an evaluation's seeds follow: every JSON reader keeps it whole."""
SECONDS = 600.0

Drawn = dict[str, dict[str, int]]
"""The number that was drawn, by split and metric."""


def drawn_of(splits: Mapping[str, Mapping[str, Any]]) -> Drawn:
    """Return the numbers that were drawn for an evaluation's splits, as the ledger has them."""
    return {
        split: {name: int(found["drawn"]) for name, found in record.get(EPISODES, {}).items()} | record.get(IN_VAIN, {})
        for split, record in splits.items()
    }


def drawn_before(facts: ProjectFacts, run_id: str, source: str | None, program: str | None) -> Drawn:
    """Return the numbers that were drawn first for the same weights: an export repeated draws no luckier ones.

    Args:
        facts: of the project.
        run_id: of the run that is evaluated.
        source: that an export is of.
        program: digest of the program that is evaluated.
    """
    found: Drawn = {}
    for other, evaluated in facts.evaluations.items():
        start = facts.started.get(other)
        of = {other, start.source_run} if start is not None and start.kind == RunKind.EXPORT else {other}
        if not of.isdisjoint({run_id, source} - {None}) or (program and evaluated.program == program):
            for split, names in drawn_of(evaluated.splits).items():
                found[split] = names | found.get(split, {})
    return found


def add_episodes(run: Sealed, order: dict[str, Any], answer: dict[str, Any], folder: Path, drawn: Drawn) -> None:
    """Put the means over episodes into the clean room's answer, with their intervals, or why there are none.

    Args:
        run: whose configuration names the functions.
        order: the clean room's, with the program and the one beside it.
        answer: of the clean room.
        folder: a temporary one.
        drawn: of an evaluation that is repeated; where it has none, the seeds are drawn anew.
    """
    config = run.directory.specification().config
    reference = copied(run, config.reference, folder, is_imported=False) if config.reference is not None else {}
    for entry in episode_entries(config.metrics):
        name = entry.use.rpartition(":")[2]
        seeds = {split: drawn.get(split, {}).get(name, secrets.randbits(DRAWN_BITS)) for split in answer["splits"]}
        asked = {"program": order["program"], "args": entry.args, "episodes": entry.episodes, "drawn": seeds}
        play = partial(_played, run, entry, folder)
        ours = play(asked)
        why = ours.get("why") or (f"the name {name!r} is taken" if is_taken(name) else "")
        if why:
            for split, record in answer["splits"].items():  # a bad episode that fails draws no luckier ones either
                record["not_computed"][name] = why
                record[IN_VAIN] = record.get(IN_VAIN, {}) | {name: seeds[split]}
            continue
        beside = play(asked | {"program": order["beside"]}) if order.get("beside") else {}
        theirs = play(asked | {"reference": reference}) if "file" in reference else {}
        for split, record in answer["splits"].items():
            _put(record, name, ours["splits"][split], {"count": entry.episodes, "drawn": seeds[split]})
            if theirs and config.reference is not None:
                rival = record.setdefault("rivals", {}).setdefault(config.reference, {})
                _put_other(rival, name, split, ours, theirs)
            if "metrics" in record.get("beside", {}) and "splits" in beside:
                _put_other(record["beside"], name, split, ours, beside)


def _played(run: Sealed, entry: EpisodesEntry, folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of the episodes by split, or why there are none, from a process that knows one program."""
    found = run_apart(run, entry.use, WORKER, asked, folder, seconds=SECONDS)
    if why := found.get("problem") or found.get("why"):
        return {"why": str(why) + (f"; fewer episodes than {entry.episodes} take less" if "took more" in why else "")}
    splits = found.get("splits")
    are_numbers = isinstance(splits, dict) and all(
        isinstance(one, list)
        and len(one) == entry.episodes
        and all(isinstance(each, int | float) and math.isfinite(each) for each in one)
        for one in (splits.get(split) for split in asked["drawn"])
    )
    return {"splits": splits} if are_numbers else {"why": "your function ended its process apart from training"}


def _put(record: dict[str, Any], name: str, values: list[float], played: dict[str, int]) -> None:
    interval = interval_of(np.asarray(values, dtype=np.float64))
    record["metrics"][name] = statistics.fmean(values)
    record["intervals"] |= {name: list(interval)} if interval else {}
    record[OWN] = sorted({*record.get(OWN, []), name})
    record[EPISODES] = record.get(EPISODES, {}) | {name: played}


def _put_other(record: dict[str, Any], name: str, split: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Put what another gives on the same seeds beside what it gives on the rows."""
    if "why" in theirs:
        record.setdefault("problem", theirs["why"])
        return
    record.setdefault("metrics", {})[name] = statistics.fmean(theirs["splits"][split])
    apart = np.asarray(ours["splits"][split]) - np.asarray(theirs["splits"][split])
    between = spread_of(apart)
    record.setdefault("paired", {}).setdefault("intervals", {}).update({name: list(between)} if between else {})
