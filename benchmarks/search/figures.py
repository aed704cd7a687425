"""From seconds and moments to the figures that are printed: nothing here measures anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moments import Moments

Seconds = Mapping[str, Sequence[float]]
"""What was timed to the seconds of each repetition: ours, confirmation, bare, ray."""
PARTS = {
    "order": ("planned", "launched"),
    "spawn and imports": ("launched", "started"),
    "probes": ("started", "probed"),
    "data and model": ("probed", "first_epoch"),
    "training": ("first_epoch", "last_epoch"),
    "end": ("last_epoch", "ended"),
    "seal": ("ended", "sealed"),
}
"""Parts of a trial, each from one of its moments to another."""
WAITING, BETWEEN = "waits for its wave", "between waves"


def order_of(contestants: Sequence[str], repetition: int) -> list[str]:
    """Return who goes when: in another order each time, so that none always has the warmer or quieter machine."""
    places = list(contestants) if repetition % 2 == 0 else list(reversed(contestants))
    turn = (repetition // 2) % len(places)
    return places[turn:] + places[:turn]


def parts_of(trials: Sequence[Moments], width: int, asked_at: float) -> dict[str, float]:
    """Return the mean seconds of a trial's parts, which add up to those of a wave, and of the study's start.

    Args:
        trials: of one study, by number.
        asked_at: when it was started (seconds since 1970).
    """
    waves = [trials[first : first + width] for first in range(0, len(trials), width)]
    ends = [max(one.sealed for one in wave) for wave in waves]
    found = {
        name: mean(getattr(one, until) - getattr(one, since) for one in trials)
        for name, (since, until) in PARTS.items()
    }
    found[WAITING] = mean(end - one.sealed for wave, end in zip(waves, ends, strict=True) for one in wave)
    gaps = [one.planned - end for wave, end in zip(waves[1:], ends, strict=False) for one in wave]
    found[BETWEEN] = mean(gaps) if gaps else 0.0
    found["start of the study"] = min(one.planned for one in trials) - asked_at
    return found


def medians_of(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each part's median over the repetitions, to the millisecond."""
    return {name: round(median(one[name] for one in parts), 3) for name in parts[0]}


def ratios_of(seconds: Seconds) -> dict[str, float]:
    """Return our medians over those of the others; `with_confirmation` counts what they do not do at all."""
    typical = {name: median(values) for name, values in seconds.items() if values}
    whole = typical["ours"] + typical.get("confirmation", 0.0)
    found = {}
    for other in ("bare", "ray"):
        if other in typical:
            found[f"to_{other}"] = round(typical["ours"] / typical[other], 2)
            found[f"to_{other}_with_confirmation"] = round(whole / typical[other], 2)
    return found


def summary_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the last line: of each ratio that of the worst task and the median, and each task's figures.

    Args:
        tasks: by name `seconds` (as `Seconds`) and `parts` of each repetition.
    """
    by_task = {name: ratios_of(one["seconds"]) for name, one in tasks.items()}
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for ratios in by_task.values() for name in ratios):
        values = [ratios[name] for ratios in by_task.values() if name in ratios]
        found[f"ratio_{name}"] = max(values)
        found[f"ratio_{name}_median"] = round(median(values), 2)
    return found | {
        "seconds": {
            task: {name: round(median(values), 1) for name, values in one["seconds"].items() if values}
            for task, one in tasks.items()
        },
        "parts": {task: medians_of(one["parts"]) for task, one in tasks.items() if one["parts"]},
    }


def table_of(name: str, trials: int, figures: Mapping[str, Any]) -> list[str]:
    """Return a task's table as lines."""
    seconds, ratios = figures["seconds"], ratios_of(figures["seconds"])
    lines = [f"{name}: {trials} trials in two processes; seconds of each repetition, and the median"]
    for who, values in seconds.items():
        if values:
            each = " ".join(f"{value:8.1f}" for value in values)
            lines.append(f"  {who:<14} {each}   {median(values):8.1f}   {median(values) / trials:6.2f} a trial")
    lines.append("  ours over " + ", ".join(f"{key.removeprefix('to_')}: {value}" for key, value in ratios.items()))
    if figures["parts"]:
        parts = medians_of(figures["parts"])
        lines.append("  where a trial of ours spends its seconds (mean of the trials, median of the repetitions)")
        lines += [f"    {part:<20} {value:6.3f}" for part, value in parts.items()]
    return lines
