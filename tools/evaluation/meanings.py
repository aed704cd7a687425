"""Metrics that the training process means otherwise: a figure is the worse of what its name means here and there.

A trainer of the user's may call `f1` what is `f1_binary` here. A goal held to the metric of that name alone would
be reached by a figure that nobody asked for; one held to the process's meaning, by whatever it calls so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.tools.evaluation.process import run_clean_room
from trainwright.trainer.clean_room.readings import OF_CLASS_0
from trainwright.trainer.metrics import BUILT_IN


def take_worse(order: Mapping[str, Any], splits: dict[str, Any]) -> None:
    """Replace figures whose other meaning is worse, with that meaning's own interval; their readings stay.

    Args:
        order: the clean room's, for the other metrics.
        splits: by split what it answered; `readings` holds what the process is known to mean.
    """
    worse = {name: dict(_worse(split)) for name, split in splits.items()}
    others = sorted({words for found in worse.values() for words in found.values() if words in BUILT_IN})
    asked = [name for name, found in worse.items() if found]
    answer = run_clean_room({**order, "metrics": others, "splits": asked, "rivals": []}) if others else {}
    for name in asked:
        for metric, words in worse[name].items():
            _replace(splits[name], metric, words, answer.get("splits", {}).get(name, {}))


def _worse(split: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each metric whose other meaning has a worse value, with that meaning."""
    for metric, meant in split.get("readings", {}).items():
        ours = split["metrics"].get(metric) if metric in BUILT_IN else None  # one of several tasks keeps its own
        for words, value in meant.items() if ours is not None else ():
            falls = value > ours if BUILT_IN[metric].minimize else value < ours
            if falls and (words in BUILT_IN or words == OF_CLASS_0):
                yield metric, words


def _replace(split: dict[str, Any], metric: str, words: str, other: Mapping[str, Any]) -> None:
    """Put another meaning's value in place of a metric's; without an interval it shows nothing of other rows."""
    split["metrics"][metric] = other.get("metrics", {}).get(words, split["readings"][metric][words])
    split.get("intervals", {}).pop(metric, None)
    if interval := other.get("intervals", {}).get(words):
        split["intervals"][metric] = interval
    else:
        split["open"] = [*split.get("open", []), metric]
