"""From the `curriculum` section to the order of the train samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from torch.utils.data import IterableDataset

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.curriculum import Curriculum, centroid_distances, lengths, ranked, scored
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.work import Work
from trainwright.trainer.user_code.entries import call_entry, is_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code

BUILT_IN = {"centroid": centroid_distances, "length": lengths}


def build_curriculum(config: TrainingConfig, work: Work, code_root: Path) -> Curriculum | None:
    """Return the curriculum of the train split, its difficulties measured; None where the configuration has none.

    Raises:
        ConfigurationError: the samples have no order to choose.
        DataError, UserCodeError: the difficulty cannot be told.
    """
    section, samples = config.curriculum, work.splits.samples["train"]
    if section is None:
        return None
    if isinstance(samples, IterableDataset) or not work.shuffle:
        why = "comes as a stream" if isinstance(samples, IterableDataset) else "is not shuffled (the task's `shuffle`)"
        raise ConfigurationError(
            f"A curriculum chooses the order of the train samples, and the train split {why}.",
            remedy="Take curriculum out (null), or hand over a data set with __getitem__ that may be shuffled.",
        )
    seed = config.data.split.seed if config.data is not None else 0
    if is_entry(section.use):
        function = resolve_entry(section.use, code_root, key="curriculum.use")
        what = f"curriculum `{section.use}`"
        if isinstance(function, type):
            function = call_entry(function, section.args, what, code_root)
        elif section.args:
            function = partial(function, **section.args)
        with user_code(what, code_root):
            scores = scored(samples, seed, function)
    else:
        with user_code("Reading the train samples for the curriculum", code_root):
            scores = BUILT_IN[section.use](samples, seed)
    return Curriculum(section, config.training.epochs, config.seed, ranked(scores, hardest_first=section.hardest_first))
