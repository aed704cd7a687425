"""A run beside a rival on the same validation rows: both figures, the interval of their difference, and what helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import TrainingConfig

Word = Literal["better", "worse", "not told apart"]
BETTER: Word = "better"
WORSE: Word = "worse"
ALIKE: Word = "not told apart"
Ends = tuple[float, float]

OF_SERIES = "Fewer inputs or a linear model may help, or the rival may simply be the better forecast."
FROM_LAST = "A forecast that goes on from the last value begins as good as it: model.args.from_last true."
OF_TABLES = "On such a table the rival may simply be the better model; fewer inputs, or ones made by hand, may help."
OF_OTHERS = "The rival may simply be the better model for these data."
NAIVE = ("last_value", "seasonal")
HELPS = {**dict.fromkeys(NAIVE, OF_SERIES), "boosted_trees": OF_TABLES, "linear": OF_TABLES}
"""What helps a model that a rival outdoes, by the rival's name."""
LARGER = "It underfits too, so a larger model may help as well."


class Shown(Frozen):
    """What the same rows show of one program beside another."""

    interval: Ends | None = None
    """95 %, of its figure minus the other's; None: too few rows to tell."""
    side: Word
    """Where the whole interval lies; not told apart: on both."""
    few: str = ""
    """The rows that differ, with their exact test, where they are too few to show what the interval seems to."""

    @property
    def word(self) -> Word:
        """Of the program."""
        return ALIKE if self.few else self.side

    def told(self, words: Mapping[Word, str]) -> str:
        """Return the word in others' words, and which rows are too few where they are."""
        return f"{words[self.word]}{f' ({self.few})' if self.few else ''}"


class BesideRival(Frozen):
    """A run's program beside one rival, by one metric, as the clean room computed both."""

    name: str
    told: str
    """The rival in words."""
    metric: str
    ours: float
    theirs: float
    shown: Shown
    """Of the model."""

    @property
    def word(self) -> Word:
        """Of the model."""
        return self.shown.word

    @property
    def between(self) -> str:
        """Return the difference with its interval, in words."""
        ends, few = self.shown.interval, self.shown.few
        told = f"95 % interval {ends[0]:.3g} to {ends[1]:.3g}" if ends else "too few rows"
        return f"difference {self.ours - self.theirs:+.3g}, {told}{few and f'; {few}'}"

    def clause(self, *, is_met: bool = False) -> str:
        """Return one clause of a headline: who is better, with the figures.

        Args:
            is_met: whether the model meets the goal, which a better rival then does too.
        """
        if self.word == BETTER:
            return f"better than {self.told} ({self.metric} {self.theirs:.4g})"
        both = f"{self.metric} {self.theirs:.4g} against {self.ours:.4g} of the model; {self.between}"
        if self.word == ALIKE:
            return f"no better than {self.told}, as far as these rows tell ({both})"
        met = "the goal is met, and " if is_met else ""
        return f"{met}{self.told} {'meets it' if is_met else 'is'} better ({both})"


def outdoing(rivals: Sequence[BesideRival], metric: str | None) -> BesideRival | None:
    """Return the rival that is better by the goal's metric beyond chance, the strongest first; None: there is none."""
    return next((one for one in rivals if one.word == WORSE and one.metric == metric), None)


def what_helps(rival: BesideRival, config: TrainingConfig, *, underfits: bool = False) -> str:
    """Return what helps a model that the rival outdoes.

    Args:
        rival: that outdoes it.
        config: of the model.
        underfits: whether the curves show that; only then more capacity is named.
    """
    helps = FROM_LAST if helping_changes(rival, config) else HELPS.get(rival.name, OF_OTHERS)
    return f"{helps}{f' {LARGER}' if underfits else ''}"


def helping_changes(rival: BesideRival, config: TrainingConfig) -> dict[str, Any]:
    """Return the changes by which a forecast of the level goes on from the last value; empty where none are known."""
    model, args = config.model, config.data.args if config.data is not None else {}
    if rival.name not in NAIVE or model is None or model.use != "dlinear" or model.args.get("from_last"):
        return {}
    if args.get("features") and args.get("target") not in args["features"]:  # its own past is no input
        return {}
    is_linear = config.target_scaling == "standardize"
    return {"model.args.from_last": True, **({} if is_linear else {"target_scaling": "standardize"})}
