"""Expectations of data: what columns, rows, classes and distributions have to be like. Light: the server reads them."""

from __future__ import annotations

import difflib
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError, near
from trainwright.trainer.base.iso_dates import date_from_iso
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.base.section import Fraction, NonNegativeFloat, NonNegativeInt, PositiveFloat, Section
from trainwright.trainer.data.validation import yaml_file
from trainwright.trainer.data.validation.importers import taken_over

DOCUMENT = "configs/data_validation.md"
LARGEST_FILE = 1 << 20
ENDINGS = (".yaml", ".yml", ".json")
REALLY_NEAR = 0.8
NOW = "now"


def _plain(value: Any) -> Any:
    """Return YAML's dates as text."""
    return value.isoformat() if isinstance(value, date | datetime) else value


def _dated(value: Any) -> Any:
    """Return a bound. Raises ValueError for a text that is no date."""
    if not isinstance(value, str) or value == NOW:
        return value
    with suppress(ValueError):
        date_from_iso(value)
        return value
    try:
        number = float(value)
    except ValueError:
        raise ValueError("a date is text like 2026-01-31; this is neither a date nor a number") from None
    raise ValueError(f"a number stands without quotes: {number:g}")


Value = Annotated[bool | int | float | str, BeforeValidator(_plain)]
Bound = Annotated[int | float | str, BeforeValidator(_plain), AfterValidator(_dated)]
"""A number, or a date as text (2026-01-31, 2026-01-31T12:00:00)."""
Instant = Annotated[str, BeforeValidator(_plain), AfterValidator(_dated)]
Severity = Literal["error", "warning", "info"]
ColumnKind = Literal["number", "integer", "boolean", "category", "text", "date"]


class ColumnExpectations(Section):
    """Expectations of one column. Empty cells break `nulls_at_most` alone."""

    kind: ColumnKind | None = None
    required: bool = True
    """Whether the column has to be there."""
    severity: Severity = "error"
    """Of all checks of the column."""
    nulls_at_most: Fraction | None = None
    min: Bound | None = None
    max: Bound | None = None
    one_of: Annotated[list[Value], Field(min_length=1)] | None = None
    none_of: Annotated[list[Value], Field(min_length=1)] | None = None
    pattern: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Regular expression (of Rust's regex crate) that every text has a match of."""
    mostly: Fraction = 1.0
    """Share of the rows that have to keep min, max, one_of, none_of, pattern and the lengths."""
    unique: bool = False
    distinct_at_least: NonNegativeInt | None = None
    distinct_at_most: NonNegativeInt | None = None
    mean_at_least: float | None = None
    mean_at_most: float | None = None
    length_at_least: NonNegativeInt | None = None
    """Characters of a text."""
    length_at_most: NonNegativeInt | None = None
    not_before: Instant | None = None
    not_after: Instant | None = None
    """A date, or `now`."""
    fresh_within_days: PositiveFloat | None = None
    """The newest date is not older than this, when the data is validated."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for low, high in (
            ("min", "max"),
            ("distinct_at_least", "distinct_at_most"),
            ("mean_at_least", "mean_at_most"),
            ("length_at_least", "length_at_most"),
        ):
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and (isinstance(least, str) != isinstance(most, str)):
                raise ValueError(f"`{low}` = {least!r} and `{high}` = {most!r} must both be numbers, or both dates")
            if least is not None and most is not None and least > most:
                raise ValueError(f"`{low}` = {least!r} is above `{high}` = {most!r}")
        return self


class RowExpectations(Section):
    """Expectations of the number of rows, and of rows as a whole."""

    at_least: NonNegativeInt | None = None
    at_most: NonNegativeInt | None = None
    duplicates_at_most: Fraction | None = None
    """Share of rows that equal an earlier one."""
    unique_together: list[Annotated[list[str], Field(min_length=2)]] = Field(default_factory=list)
    """Columns whose values together occur once."""
    ordered: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(default_factory=list)
    """Pairs of columns of which the first is never above the second: [start, end]."""


class ClassExpectations(Section):
    """Expectations of the target's classes."""

    balance_at_least: Fraction | None = None
    """The rarest class's rows over the most frequent one's."""
    only: Annotated[list[Value], Field(min_length=1)] | None = None
    """The labels that there are; one_of for the target."""
    samples_at_least: NonNegativeInt | None = None
    """Rows of every class."""


class DriftExpectations(Section):
    """Bounds on the distance of each column's distribution from that of a reference."""

    reference: Annotated[str, Field(min_length=1)]
    """A file of the same form under the code root."""
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    """None: all that both have."""
    psi_at_most: NonNegativeFloat | None = None
    """Population stability index over ten quantiles of the reference, or its categories; 0.2 is a shift."""
    ks_at_most: Fraction | None = None
    """Kolmogorov-Smirnov distance of numbers and dates."""
    chi2_at_most: NonNegativeFloat | None = None
    """Chi-squared of categories over its degrees of freedom; about 1 where nothing shifted."""
    wasserstein_at_most: NonNegativeFloat | None = None
    """Of numbers, in deviations of the reference."""
    mmd_at_most: NonNegativeFloat | None = None
    """Squared maximum mean discrepancy of all numbers of a row together: embeddings, pictures' properties."""
    severity: Severity = "error"


class Expectations(Section):
    """Expectations of a data set, as in one small file."""

    columns: dict[Annotated[str, Field(min_length=1)], ColumnExpectations] = Field(default_factory=dict)
    other_columns: Literal["allowed", "refused"] = "allowed"
    """Whether columns may be there that `columns` does not name."""
    rows: RowExpectations = Field(default_factory=RowExpectations)
    classes: ClassExpectations = Field(default_factory=ClassExpectations)
    drift: DriftExpectations | None = None
    without: list[str] = Field(default_factory=list)
    """Families of checks that are left out; the report says so."""
    severities: dict[str, Severity] = Field(default_factory=dict)
    """Severity by check of the default set (`duplicates: error`)."""
    not_taken_over: list[str] = Field(default_factory=list)
    """Expectations of another library that have no counterpart here; the report says so."""

    def values(self) -> dict[str, Any]:
        """Return the expectations without defaults, as JSON types."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def digest(self) -> str:
        """Return their digest."""
        return digest_json(self.values())

    @property
    def depends_on_the_day(self) -> bool:
        """Whether a verdict may be another one tomorrow."""
        return any(one.fresh_within_days is not None or one.not_after == NOW for one in self.columns.values())


def read_expectations(given: str | Expectations | None, code_root: Path) -> Expectations:
    """Return the expectations of a configuration: none, as they stand in it, or in a file under the code root.

    Raises:
        ConfigurationError: no such file, no YAML, or unknown keys; it names the place and near names.
    """
    if given is None or isinstance(given, Expectations):
        return given or Expectations()
    path = expectations_path(given, code_root)
    if path.stat().st_size > LARGEST_FILE:
        raise _unreadable(given, f"it has {path.stat().st_size} bytes, more than {LARGEST_FILE}")
    try:
        return parse_expectations(path.read_text(encoding="utf-8"), given)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(given, str(error)) from error


def expectations_path(given: str, code_root: Path) -> Path:
    """Return the file, which is under the code root. Raises ConfigurationError."""
    path = (code_root / given).resolve()
    if not path.is_relative_to(code_root.resolve()) or not path.is_file():
        meant = _meant(given, code_root)
        raise ConfigurationError(
            f"`data.expectations` = {given!r} is no file under code_root.{f' Near: {meant}.' if meant else ''}",
            remedy="Name the file; or write one there: validate_data with suggest true gives its text.",
            document=DOCUMENT,
            details={"changes": {"data.expectations": meant}, "near": meant} if meant else {},
        )
    return path


def _meant(given: str, code_root: Path) -> str | None:
    """Return the file whose name is almost the given one; None where none is."""
    by_name = {Path(name).stem: name for name in reversed(files_under(code_root)) if name.endswith(ENDINGS)}
    found = difflib.get_close_matches(Path(given).stem, by_name, n=1, cutoff=REALLY_NEAR)
    return by_name[found[0]] if found else None


def parse_expectations(text: str, name: str) -> Expectations:
    """Return the expectations of a file's text: ours, or a Great Expectations suite's.

    Raises ConfigurationError.
    """
    try:
        values = yaml_file.load(text)
    except yaml.YAMLError as error:
        raise _unreadable(name, " ".join(str(error).split())[:200]) from error
    values = taken_over(values)
    if not isinstance(values, dict):
        raise _unreadable(name, f"it holds a {type(values).__name__} and no mapping")
    try:
        return Expectations.model_validate(values)
    except ValidationError as error:
        raise _unreadable(name, "; ".join(_told(problem) for problem in error.errors()[:3])) from error


def _unreadable(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"The expectations in {name} cannot be used: {why}.",
        remedy=f"Correct {name}; {DOCUMENT} lists the keys, and validate_data(project=…, suggest=true) gives the text "
        "of a file that fits the data.",
        document=DOCUMENT,
    )


def _told(problem: Any) -> str:
    place = [str(part) for part in problem["loc"]]
    if problem["type"] != "extra_forbidden":
        return f"`{'.'.join(place)}`: {problem['msg']}, got {str(problem['input'])[:60]!r}"
    known = _keys_at(place[:-1])
    meant = near(place[-1], known)
    return f"`{'.'.join(place)}` is no key; " + (f"did you mean `{meant[0]}`?" if meant else f"there are {known}")


def _keys_at(place: list[str]) -> list[str]:
    sections: dict[str, type[Section]] = {
        "columns": ColumnExpectations,
        "rows": RowExpectations,
        "classes": ClassExpectations,
        "drift": DriftExpectations,
    }
    return list((sections.get(place[0], Expectations) if place else Expectations).model_fields)
