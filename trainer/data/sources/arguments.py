"""The arguments of the built-in data sources. What a file holds is judged by a run, which reads it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import Section

Name = Annotated[str, Field(min_length=1)]
Side = Annotated[int, Field(ge=1, le=4096)]
Tokens = Annotated[int, Field(ge=1, le=2**20)]
Task = Literal["classification", "regression"]
Way = Literal["document", "position"]


class ToyArgs(Section):
    """A data set of scikit-learn's."""

    standardize: bool | None = None
    """Left out: tables are, images are not."""


class TableArgs(Section):
    """A table of numbers."""

    path: Name
    target: Name
    """Column to predict."""
    features: Annotated[list[Name], Field(min_length=1)] | None = None
    """Columns to predict from; left out: all others."""
    task: Task | None = None
    """Left out: guessed from the target."""
    standardize: bool = True

    @model_validator(mode="after")
    def _the_target_is_no_feature(self) -> Self:
        if self.features is not None and self.target in self.features:
            raise ValueError(f"features must not name the target {self.target!r}")
        return self


class CsvArgs(TableArgs):
    """A table of numbers in a text file."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","


class TextTableArgs(Section):
    """A table with a column of texts."""

    path: Name
    text: Name
    """Column of texts."""
    target: Name | None = None
    """Column to predict from them; left out: the texts themselves are modelled."""
    task: Task | None = None
    tokenizer: Name = "bytes"
    max_length: Tokens = 128
    """Tokens to which a text is cut; for classification."""
    block_size: Tokens = 128
    """Tokens that a model sees at once; for language modelling."""
    split_by: Way | None = None


class TextCsvArgs(TextTableArgs):
    """A text file of rows, one column of which holds texts."""

    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","


class NpzArgs(Section):
    """Two arrays of a NumPy archive."""

    path: Name
    inputs: Name = "x"
    targets: Name = "y"
    standardize: bool = False


class ImagesArgs(Section):
    """A folder of images, one folder in it for each class."""

    path: Name
    size: Side | Annotated[list[Side], Field(min_length=2, max_length=2)] | None = None
    """One number, or [height, width], in pixels; left out: all images have one size."""
    channels: Literal[1, 3] = 3
    standardize: bool = True


class TextArgs(Section):
    """Text files for language modelling."""

    path: Name | Annotated[list[Name], Field(min_length=1)]
    """A file, several, or patterns."""
    tokenizer: Name = "bytes"
    block_size: Tokens = 128
    split_by: Way | None = None
    separator: Name | None = None


DATA: dict[str, type[Section]] = {
    **dict.fromkeys(("digits", "iris", "wine", "breast_cancer", "diabetes"), ToyArgs),
    "csv": CsvArgs,
    **dict.fromkeys(("jsonl", "parquet", "arrow"), TableArgs),
    "npz": NpzArgs,
    "text": TextArgs,
    "images": ImagesArgs,
}
WITH_TEXT: dict[str, type[Section]] = {
    "csv": TextCsvArgs,
    **dict.fromkeys(("jsonl", "parquet", "arrow"), TextTableArgs),
}
"""Those that read a column of texts where `args.text` names one."""
