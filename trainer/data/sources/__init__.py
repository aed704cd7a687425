"""Built-in data sources by name: each a file with its options and how they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.arrays import Npz
from trainwright.trainer.data.sources.arrow_folder import Arrow
from trainwright.trainer.data.sources.csv_file import Csv
from trainwright.trainer.data.sources.images import Images
from trainwright.trainer.data.sources.json_lines import JsonLines
from trainwright.trainer.data.sources.orc_file import Orc
from trainwright.trainer.data.sources.parquet_file import Parquet
from trainwright.trainer.data.sources.source import Loaded, Source
from trainwright.trainer.data.sources.text_files import Text
from trainwright.trainer.data.sources.toy import BreastCancer, Diabetes, Digits, Iris, Wine

if TYPE_CHECKING:
    from trainwright.trainer.data.splits import Splits

_KINDS: list[type[Source]] = [
    *(Digits, Iris, Wine, BreastCancer, Diabetes),
    *(Csv, JsonLines, Parquet, Orc, Arrow),
    *(Npz, Text, Images),
]
SOURCES: dict[str, type[Source]] = {kind.name: kind for kind in _KINDS}
"""A new source is one line above; the configuration's names, its documents' checks and its contract follow."""


def load_source(name: str, args: dict[str, Any], code_root: Path, split: SplitSection) -> Loaded | Splits:
    """Return a built-in source's samples. Raises as `Source.load`, or ValidationError for other arguments."""
    return SOURCES[name].form_of(args).model_validate(args).load(code_root, split)
