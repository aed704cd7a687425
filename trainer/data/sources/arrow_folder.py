"""Arrow tables: a file (IPC, Feather), or the folder that the Hugging Face library's save_to_disk wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine, confine_folder
from trainwright.trainer.data.sources.cells import Wanted, named
from trainwright.trainer.data.sources.source import PATH
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"ARROW1"
"""First bytes of a file; a stream has none."""
SPLIT = "split"
"""Column that a folder of several splits gets, with the split of each row: `split: {by: given, column: split}`."""


class _Folder(Table):
    """An Arrow file; a folder of streams; or of several, one for each split, whose rows then follow each other."""

    name: ClassVar[str] = "arrow"
    endings: ClassVar[tuple[str, ...]] = ("arrow", "feather")

    def confined(self, path: str, code_root: Path) -> Path:
        """Return the file or folder. Raises ConfigurationError where there is none."""
        find = confine if (code_root / path).is_file() else confine_folder
        return find(path, code_root, key=PATH)

    def _header(self, path: Path) -> list[str]:
        return named(_header(_parts(path)), path)

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the files, in the order of the folder's list of them; of splits, in the order of MEANT."""
        return (batch.select(wanted.names) for batch in _batches(_parts(path)))


def _header(parts: list[tuple[str | None, Path]]) -> list[str]:
    first = next(_batches(parts[:1]), None)
    return [] if first is None else list(first.schema.names)


def rows_of(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a folder one by one, as `_Folder` has them."""
    for batch in _batches(_parts(folder)):
        yield from batch.to_pylist()


def _batches(parts: list[tuple[str | None, Path]]) -> Iterator[Any]:
    """Yield the rows of all streams some at a time, with the split of each where there are several."""
    import pyarrow as pa

    for split, file in parts:
        with _opened(file) as batches:
            for batch in batches:
                if split is None:
                    yield batch
                    continue
                kept = {name: batch.column(name) for name in batch.schema.names if name != SPLIT}
                kept[SPLIT] = pa.array([split] * batch.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[pa.RecordBatch]]:
    """Open a file or a stream, and give its batches."""
    from pyarrow import ipc

    with path.open("rb") as file:
        is_file = file.read(len(MAGIC)) == MAGIC
    with (ipc.open_file if is_file else ipc.open_stream)(str(path)) as reader:
        yield (reader.get_batch(n) for n in range(reader.num_record_batches)) if is_file else iter(reader)


def _parts(folder: Path) -> list[tuple[str | None, Path]]:
    """Return the streams of a folder, each with its split where the folder holds several.

    Raises:
        DataError: a split of another name than train, validation or test.
    """
    from trainwright.trainer.data.split_methods.given import MEANT
    from trainwright.trainer.data.split_methods.rows import NAMES

    if folder.is_file():
        return [(None, folder)]
    if not (folder / "dataset_dict.json").is_file():
        return [(None, file) for file in _streams(folder)]
    named = json.loads((folder / "dataset_dict.json").read_text(encoding="utf-8"))["splits"]
    unknown = [name for name in named if name not in MEANT]
    if unknown or "train" not in named:
        first = named[0] if named else "train"
        raise DataError(
            f"{folder.name} holds the splits {', '.join(map(str, named))}; known are train, validation and test.",
            remedy=f"Point data.args.path at one of them, for example {folder.name}/{first}.",
        )
    order = list(MEANT)
    return [
        (NAMES[MEANT[name]], file)
        for name in sorted(named, key=lambda name: (MEANT[name], order.index(name)))
        for file in _streams(folder / name)
    ]


def _streams(folder: Path) -> list[Path]:
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return [folder / Path(file["filename"]).name for file in state["_data_files"]]


class ArrowTexts(_Folder, Texts):
    """An Arrow table, one column of which holds texts."""


class Arrow(_Folder, Numbers):
    """An Arrow table."""

    texts: ClassVar[type[Texts]] = ArrowTexts
