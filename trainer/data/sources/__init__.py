"""Built-in data sources by name: each a file with its options and how they are loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.download_log import is_remote
from trainwright.trainer.data.dvc import pull_tracked, tracked_places
from trainwright.trainer.data.remote.storage import Storage
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.arrays import Npz
from trainwright.trainer.data.sources.arrow_folder import Arrow
from trainwright.trainer.data.sources.chat import Chat
from trainwright.trainer.data.sources.csv_file import Csv
from trainwright.trainer.data.sources.excel_file import Excel
from trainwright.trainer.data.sources.images import Images
from trainwright.trainer.data.sources.json_lines import JsonLines
from trainwright.trainer.data.sources.orc_file import Orc
from trainwright.trainer.data.sources.parquet_file import Parquet
from trainwright.trainer.data.sources.source import Loaded, Source
from trainwright.trainer.data.sources.sql import Sql
from trainwright.trainer.data.sources.text_files import Text
from trainwright.trainer.data.sources.text_rows import MultipleChoice, QuestionAnswering, Seq2Seq, TokenClassification
from trainwright.trainer.data.sources.toy import BreastCancer, Diabetes, Digits, Iris, Wine

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.splits import Splits

_KINDS: list[type[Source]] = [
    *(Digits, Iris, Wine, BreastCancer, Diabetes),
    *(Csv, JsonLines, Parquet, Orc, Arrow, Excel),
    *(Npz, Text, Images),
    *(Sql, Chat),
    *(TokenClassification, Seq2Seq, QuestionAnswering, MultipleChoice),
]
OF_FILES = ("path", "pictures", "masks")
"""Arguments that name files or folders."""
SOURCES: dict[str, type[Source]] = {kind.name: kind for kind in _KINDS}
"""A new source is one line above; the configuration's names, its documents' checks and its contract follow."""


def open_source(name: str, args: dict[str, Any]) -> Source:
    """Return a built-in source that is ready to `load` or `scan`: what its `path` names elsewhere has been fetched.

    Raises:
        ConfigurationError, DataError: as `remote.files.fetch`; or ValidationError for other arguments.
    """
    kind = SOURCES[name].form_of(args)
    source = kind.model_validate(args)
    path = args.get("path")
    given = path if isinstance(path, list) else [path]
    if not any(map(is_remote, given)):
        return source
    from trainwright.trainer.data.remote.files import fetch

    storage = getattr(source, "storage", None) or Storage()
    here = [place for each in given for place in (fetch(str(each), storage) if is_remote(each) else [each])]
    return kind.model_validate({**args, "path": here if isinstance(path, list) or len(here) > 1 else here[0]})


def load_source(
    name: str, args: dict[str, Any], code_root: Path, split: SplitSection, of_loss: str | None = None
) -> Loaded | Splits:
    """Return a built-in source's samples; what DVC tracks is pulled where it is absent.

    Args:
        of_loss: what loss and metrics want as a target, classification or regression.

    Raises as `Source.load` and `pull_tracked`, or ValidationError for other arguments.
    """
    pull_absent(args, code_root)
    found = open_source(name, args).for_loss(of_loss).load(code_root, split)
    if not isinstance(found, Loaded) or found.series is not None or not found.files:
        return found
    from trainwright.trainer.data.marks import source_of
    from trainwright.trainer.data.tensors import TensorSamples

    if type(found.samples) is not TensorSamples:  # pictures that a table names
        return found
    return replace(found, placed_in=source_of(name, found.files, len(found.samples), found.skipped))


def scan_source(name: str, args: dict[str, Any], code_root: Path) -> pl.LazyFrame | None:
    """Return a built-in source's rows as they are in its files, which are brought as `load_source` brings them.

    None where it has no table of rows. Raises as `load_source`.
    """
    pull_absent(args, code_root)
    return open_source(name, args).scan(code_root)


def pull_absent(args: dict[str, Any], code_root: Path) -> None:
    """Let DVC pull the paths that a source's arguments name, where it tracks them and they are absent."""
    for path in (args.get(key) for key in OF_FILES):
        for each in path if isinstance(path, list) else [path]:
            if isinstance(each, str) and not is_remote(each):
                for place in tracked_places(each, code_root):
                    pull_tracked(place, code_root)
