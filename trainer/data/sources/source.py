"""Source of data: its options, and how they are loaded. Light: the server reads the options, a worker loads."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.section import Section

if TYPE_CHECKING:
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.splits import Loaded, Splits

Name = Annotated[str, Field(min_length=1)]
PATH = "data.args.path"
"""Key of a source's file or folder, for messages."""


class Source(Section):
    """A built-in source: its fields are what `data.args` may hold. Heavy libraries are imported when it loads.

    What a file holds is judged by a run, which reads it.
    """

    name: ClassVar[str]
    """The value of `data.use`."""
    endings: ClassVar[tuple[str, ...]] = ()
    """Of the files that it reads."""

    @classmethod
    def form_of(cls, args: dict[str, Any]) -> type[Source]:  # noqa: ARG003 - for sources of several forms
        """Return the options that these arguments are held to: other ones where a source reads in several ways."""
        return cls

    @abstractmethod
    def load(self, code_root: Path, split: SplitSection) -> Loaded | Splits:
        """Return samples that are not split yet, with the files that they come from; or splits, where that comes first.

        The same files give the same samples in the same order.

        Args:
            code_root: the folder that every file lies under.
            split: how samples will be divided, for a source that has to know.

        Raises:
            ConfigurationError: a path that is not there, or leads outside the code root.
            DataError: what lies there cannot be used; it says where it is wrong.
        """


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error for a file that its reader does not understand."""
    return DataError(
        f"{path.name} cannot be read: {str(error)[:200]}.",
        remedy="Point data.args.path at a readable file (csv, jsonl: UTF-8 text; npz: written by numpy.savez; parquet: "
        "whole; arrow: a folder of save_to_disk).",
    )
