"""Building the data of a configuration: a built-in source, split and recorded, or what the user's own code gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.schema import DataSection
from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.first_look import FirstLook
from trainwright.trainer.data.sources import Loaded, load_images, load_npz, load_table, load_toy
from trainwright.trainer.data.sources.tables import READERS
from trainwright.trainer.data.sources.text import text_splits
from trainwright.trainer.data.sources.texts import text_table_splits
from trainwright.trainer.data.sources.toy import NAMES as TOY_NAMES
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.user_code.entries import call_entry, is_entry, resolve_entry
from trainwright.trainer.user_code.guard import user_code
from trainwright.trainer.user_code.paths import confine, confine_folder

# The names are those of config/names.py; the schema has refused every other one.
FILES: dict[str, Callable[..., Loaded]] = {
    "npz": load_npz,
    **{kind: partial(load_table, kind) for kind in READERS},
}
"""Sources that read one file into samples, which are split afterwards."""
FOLDERS: dict[str, Callable[..., Loaded]] = {"images": load_images}
"""Sources that read a folder: (code_root, **args)."""
SPLIT: dict[str, Callable[..., Splits]] = {"text": text_splits}
"""Sources that split before they measure: (section, code_root, **args)."""


def build_data(config: TrainingConfig, code_root: Path, looks: FirstLook | None = None) -> Splits:
    """Load and split the data of `config.data`; `looks` is where first looks at large files are kept.

    Raises:
        ConfigurationError, UserCodeError, DataError: as what is wrong deserves.
    """
    section = config.data
    assert section is not None, "the schema requires it"  # noqa: S101
    if is_entry(section.use):
        return _own_data(section, code_root)
    args = dict(section.args)
    if section.use in TOY_NAMES:
        return from_loaded(load_toy(section.use, **args), section.split, source=section.use)
    if section.use in READERS and "text" in args:
        return text_table_splits(section.use, section.split, code_root, **args)
    if section.use in SPLIT:
        return SPLIT[section.use](section.split, code_root, **args)
    if section.use in FOLDERS:
        return from_loaded(FOLDERS[section.use](code_root, **args), section.split, source=section.use)
    find = confine_folder if section.use == "arrow" else confine
    path = find(str(args.pop("path")), code_root, key="data.args.path")
    loaded = FILES[section.use](path, **args)
    return from_loaded(loaded, section.split, source=section.use, args=args, looks=looks)


def _own_data(section: DataSection, code_root: Path) -> Splits:
    function = resolve_entry(section.use, code_root, key="data.use")
    what = f"data `{section.use}`"
    with seeding.preserved():  # what it draws is part of the data, and no other for another run's seed
        seeding.seed_everything(section.split.seed)
        data = call_entry(function, section.args, what, code_root)
    with user_code(f"Reading samples of {what}", code_root):
        return from_user(data, section.split, source=section.use, seed=section.split.seed)
