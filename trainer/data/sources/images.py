"""Pictures in a folder, in an archive, or named by a table; decoded when a batch asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.data.images.augmentation import AugmentSection
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Files, Loaded, Name

if TYPE_CHECKING:
    import polars as pl

Side = Annotated[int, Field(ge=1, le=4096)]
Names = Annotated[list[Name], Field(min_length=2, max_length=254)]


class Images(Files):
    """A folder of images with one folder in it for each class; or a table of paths; or masks beside the images."""

    name: ClassVar[str] = "images"

    path: Name
    """A folder, an archive (zip, tar) of one, or a table of paths (csv, tsv, parquet, jsonl)."""
    pictures: Name | None = None
    """Of a table: the folder or archive that its paths are relative to; left out: the table's own folder."""
    picture: Name | None = None
    """Of a table: the column of paths; left out: `path`, `file`, `image` or the like."""
    target: Name | Annotated[list[Name], Field(min_length=2)] | None = None
    """Of a table: the column to predict; or several columns of yes and no, for as many labels."""
    separator: Name | None = None
    """Of a table: what is between the labels in one cell of the target, where pictures have several."""
    task: Literal["classification", "regression"] | None = None
    """Of a table: left out: text and whole numbers are classes, other numbers are to be predicted."""
    masks: Name | None = None
    """A folder of masks with the images' names; of a table, the column of their paths. Each pixel has a class."""
    classes: Annotated[int, Field(ge=2, le=254)] | Names | None = None
    """With masks: how many classes there are, or their names from number 0 on."""
    size: Side | Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    """One number, or [height, width], in pixels, to which images are scaled; left out: all have one size."""
    channels: Literal[1, 3] = 3
    """3 for colours, 1 for grey."""
    standardize: bool = True
    """Bring each channel to mean 0 and deviation 1, measured on the train split; else values in [0, 1]."""
    augment: AugmentSection | None = None
    """Random changes of train pictures, anew in every epoch."""
    skip_unreadable: bool = False
    """Leave pictures out that cannot be read, and record how many; else they are an error."""

    @model_validator(mode="after")
    def _masks_have_classes(self) -> Self:
        if (self.masks is None) != (self.classes is None):
            raise ValueError("masks and classes belong together: {masks: masks, classes: [background, road]}")
        if self.masks is not None and self.target is not None:
            raise ValueError("give masks or target, not both: a picture has one kind of target")
        if self.separator is not None and not isinstance(self.target, str):
            raise ValueError("separator goes with one target column, whose cells hold several labels")
        return self

    def load(self, code_root: Path, split: SplitSection) -> Loaded:
        """Return pictures that are decoded later (small sets at once), (channels, height, width) of uint8, and targets.

        Raises:
            ConfigurationError: no such path, or one outside the code root.
            DataError: fewer than two classes, unreadable images, or several sizes without `size`; it names the files.
        """
        from trainwright.trainer.data.images.loading import load_pictures

        return load_pictures(self, code_root, split)

    def scan(self, code_root: Path) -> pl.LazyFrame:
        """Return a row for each picture: path, label, height, width, mode, bytes, digest and problem (null: none).

        Only headers and ends of files are read. Rows that `skip_unreadable` leaves out are among them.
        """
        from trainwright.trainer.data.images.loading import scan_pictures

        return scan_pictures(self, code_root)
