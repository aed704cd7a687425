"""Episodes that a function of the user's plays with the exported program alone, on seeds that the server draws.

They are drawn when the program is written already, one number for each split and metric, and the ledger keeps them:
nobody trained for these seeds, and whoever holds the program plays the same episodes again.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from trainwright.tools.evaluation.own_metrics import OWN, copied, run_apart
from trainwright.trainer.base.section import EpisodesEntry
from trainwright.trainer.metrics.evaluate import is_taken

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trainwright.tools.evaluation.sealed import Sealed
    from trainwright.trainer.config import TrainingConfig

WORKER = "trainwright.trainer.jobs.episodes"
EPISODES = "episodes"
"""Key of an evaluated split: {metric: {count, drawn}}."""
DRAWN_BITS = 48
"""Of the number from which an evaluation's seeds follow: every JSON reader keeps it whole."""
SECONDS = 600.0

Drawn = dict[str, dict[str, int]]
"""The number that was drawn, by split and metric."""


def episode_entries(config: TrainingConfig) -> list[EpisodesEntry]:
    """Return the configuration's metrics that are means over episodes."""
    return [one for one in config.metrics if isinstance(one, EpisodesEntry)]


def drawn_of(splits: Mapping[str, Mapping[str, Any]]) -> Drawn:
    """Return the numbers that were drawn for an evaluation's splits, as the ledger has them."""
    return {
        split: {name: int(found["drawn"]) for name, found in record.get(EPISODES, {}).items()}
        for split, record in splits.items()
    }


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
    reference = copied(run, config.reference, folder) if config.reference is not None else {}
    others = {
        "beside": order.get("beside"),
        "reference": reference if "file" in reference else None,
    }
    for entry in episode_entries(config):
        name = entry.use.rpartition(":")[2]
        seeds = {split: drawn.get(split, {}).get(name, secrets.randbits(DRAWN_BITS)) for split in answer["splits"]}
        asked = {"program": order["program"], "args": entry.args, "episodes": entry.episodes, "drawn": seeds, **others}
        found = run_apart(run, entry.use, WORKER, asked, folder, seconds=SECONDS)
        why = found.get("problem") or found.get("why") or (f"the name {name!r} is taken" if is_taken(name) else "")
        for split, record in answer["splits"].items():
            if why:
                record["not_computed"][name] = why
                continue
            its = found["splits"][split]
            _put(record, name, its, {"count": entry.episodes, "drawn": seeds[split]})
            if config.reference is not None and "reference" in its:
                rival = record.setdefault("rivals", {}).setdefault(config.reference, {})
                _put_other(rival, name, its["reference"])
            if "metrics" in record.get("beside", {}) and "value" in its.get("beside", {}):
                _put_other(record["beside"], name, its["beside"])


def _put(record: dict[str, Any], name: str, found: Mapping[str, Any], played: dict[str, int]) -> None:
    record["metrics"][name] = found["value"]
    record["intervals"] |= {name: found["interval"]} if found["interval"] else {}
    record[OWN] = sorted({*record.get(OWN, []), name})
    record[EPISODES] = record.get(EPISODES, {}) | {name: played}


def _put_other(record: dict[str, Any], name: str, found: Mapping[str, Any]) -> None:
    """Put what another gives on the same seeds beside what it gives on the rows."""
    if "problem" in found:
        record.setdefault("problem", str(found["problem"]))
        return
    record.setdefault("metrics", {})[name] = found["value"]
    between = record.setdefault("paired", {}).setdefault("intervals", {})
    between |= {name: found["interval"]} if found["interval"] else {}
