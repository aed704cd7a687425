"""Names of what a library's trainer measures, in the words in which goals are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from trainwright.trainer.config.goal import corrected_metric


def in_our_words(values: Mapping[str, float]) -> dict[str, float]:
    """Return measured values by our names of metrics (`acc` is `accuracy`); names that would get the same one stay.

    A goal is read in these words too, so that whoever asks for `macro_f1` finds what the trainer calls `macro_f1`.
    """
    ours = {name: corrected_metric(name) for name in values}
    taken = Counter(ours.values())
    return {ours[name] if taken[ours[name]] == 1 else name: value for name, value in values.items()}
