"""Data sets of the Hugging Face library: the folder that save_to_disk wrote, read without that library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sources.cells import Batches
from trainwright.trainer.data.sources.source import PATH
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts


class _Folder(Table):
    """A folder of Arrow streams."""

    name: ClassVar[str] = "arrow"
    endings: ClassVar[tuple[str, ...]] = ("arrow",)

    def find(self, code_root: Path) -> Path:
        """Return the folder. Raises ConfigurationError where there is none, and DataError for one of several splits."""
        folder = confine_folder(self.path, code_root, key=PATH)
        if (folder / "dataset_dict.json").is_file():
            splits = sorted(child.name for child in folder.iterdir() if child.is_dir())
            first = splits[0] if splits else "train"
            raise DataError(
                f"{folder.name} holds several splits: {', '.join(splits)}.",
                remedy=f"Point data.args.path at one of them, for example {folder.name}/{first}.",
            )
        return folder

    def batches(self, path: Path) -> Batches:
        """Return the rows of the folder's files, in the order of its list of them."""
        from pyarrow import ipc

        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        paths = [path / Path(file["filename"]).name for file in state["_data_files"]]
        with ipc.open_stream(str(paths[0])) as reader:
            header = list(reader.schema.names)

        def read(names: list[str]) -> Iterator[Any]:
            for each in paths:
                with ipc.open_stream(str(each)) as reader:
                    for batch in reader:
                        yield batch.select(names)

        return Batches(header, read)


class ArrowTexts(_Folder, Texts):
    """A data set of the Hugging Face library, one column of which holds texts."""


class Arrow(_Folder, Numbers):
    """A table of numbers as a data set of the Hugging Face library."""

    texts = ArrowTexts
