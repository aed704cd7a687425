"""Pictures in a folder, in an archive, or named by a table; decoded when a batch asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.data.images.augmentation import AugmentSection
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Files, Loaded, Name

if TYPE_CHECKING:
    import polars as pl

Side = Annotated[int, Field(ge=1, le=4096)]
Names = Annotated[list[Name], Field(min_length=2, max_length=254)]
Value = Annotated[int, Field(ge=0, lt=1 << 24)] | Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")]
Values = Value | Annotated[list[Value], Field(min_length=1)]


def codes_of(given: int | str | Sequence[int | str], *, of_colors: bool) -> list[int]:
    """Return numbers as they are, and colours (`#ff0000`, or [255, 0, 0]) as 0xRRGGBB. Raises ValueError."""
    if of_colors and _is_triple(given):
        given = "#" + bytes(given).hex()  # type: ignore[arg-type]
    values = [given] if isinstance(given, int | str) else given
    if any(isinstance(value, str) is not of_colors for value in values):
        raise ValueError("masks hold numbers or colours, not both: write all as 0, 1, … or all as '#rrggbb'")
    return [int(value[1:], 16) if isinstance(value, str) else value for value in values]


def _is_triple(given: object) -> bool:
    return isinstance(given, list) and len(given) == 3 and all(one in range(256) for one in given)


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
    classes: (
        Annotated[int, Field(ge=2, le=254)]
        | Names
        | Annotated[dict[Name, Values], Field(min_length=2, max_length=254)]
        | None
    ) = None
    """With masks: how many classes there are, or their names from number 0 on; or the number or colour of each name:
    {background: 0, lesion: 255}, {road: '#804080', car: ['#00008e', '#000046']}; the lowest one is class 0."""
    ignore: Values | list[Values] | None = None
    """With masks: numbers or colours of pixels that count in no loss; left out: 255, unless it is a class; []: none."""
    masks_drawn: Literal["upright", "stored"] | None = None
    """With masks: on upright pictures, or as they are stored before EXIF turns them; left out: as the sizes show."""
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
        if self.masks is None and (self.ignore is not None or self.masks_drawn is not None):
            raise ValueError("ignore and masks_drawn go with masks")
        if isinstance(self.classes, dict):
            values = [code for codes in self.class_codes.values() for code in codes]
            if len({*values, *self.ignored_codes}) < len(values) + len(self.ignored_codes):
                raise ValueError("a number or colour belongs to one class, or to ignore")
        if self.masks is not None and self.target is not None:
            raise ValueError("give masks or target, not both: a picture has one kind of target")
        if self.separator is not None and not isinstance(self.target, str):
            raise ValueError("separator goes with one target column, whose cells hold several labels")
        return self

    @property
    def of_colors(self) -> bool:
        """Whether the classes are named by the masks' colours."""
        given = list(self.classes.values()) if isinstance(self.classes, dict) else []
        values = [value for one in given for value in (one if isinstance(one, list) else [one])]
        return bool(given) and (any(isinstance(one, str) for one in values) or all(_is_triple(one) for one in given))

    @property
    def class_codes(self) -> dict[str, list[int]]:
        """The values of each class in masks, by its name, in the order of the classes."""
        if isinstance(self.classes, dict):
            found = {name: codes_of(one, of_colors=self.of_colors) for name, one in self.classes.items()}
            return dict(sorted(found.items(), key=lambda pair: min(pair[1])))
        names = self.classes if isinstance(self.classes, list) else map(str, range(self.classes or 0))
        return {name: [place] for place, name in enumerate(names)}

    @property
    def ignored_codes(self) -> list[int]:
        """The values in masks that are ignored."""
        if self.ignore is None:
            taken = {code for codes in self.class_codes.values() for code in codes}
            return [] if self.of_colors or 255 in taken else [255]
        given: Any = self.ignore if isinstance(self.ignore, list) and not _is_triple(self.ignore) else [self.ignore]
        return [code for one in given for code in codes_of(one, of_colors=self.of_colors)]

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
