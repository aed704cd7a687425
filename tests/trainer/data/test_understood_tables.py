"""What is understood of a table is what was drawn: equal values, or a refusal in words; never a silent difference."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.trainer.data.drawn_tables import (
    DATES,
    FORMATS,
    SPELLINGS,
    Drawn,
    dates,
    differences,
    dirtied,
    names,
    numbers,
    written,
)
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import ConfigurationError, DataError

FEW, MANY = 100, 2000
OTHERS = ("category", "boolean", "text")
KINDS = st.one_of(
    st.sampled_from(sorted(SPELLINGS)),
    st.sampled_from(sorted(SPELLINGS)),
    st.sampled_from(sorted(DATES)),
    st.sampled_from(OTHERS),
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Drawn], str]:
    """Draw a table's columns, the target `y` among them, and its format."""
    kinds = draw(st.lists(KINDS, min_size=1, max_size=4))
    target = draw(st.sampled_from([*sorted(SPELLINGS), "category"]))
    rows, seed = draw(st.integers(25, 60)), draw(st.integers(0, 2**32))
    holes, odd = draw(st.sampled_from([0, 0, 0.1])), draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2]))
    chance = random.Random(seed)
    columns = {
        f"c{place}": dirtied(chance, _column(chance, kind, rows), holes, odd) for place, kind in enumerate(kinds)
    }
    columns["y"] = _column(chance, target, rows)
    return columns, draw(st.sampled_from(sorted(FORMATS)))


def _column(chance: random.Random, kind: str, rows: int) -> Drawn:
    if kind in SPELLINGS:
        return numbers(chance, kind, rows)
    return dates(chance, kind, rows) if kind in DATES else names(chance, kind, rows)


def understood(table: tuple[dict[str, Drawn], str]) -> str:
    """Return whether a table was read or refused. Raises AssertionError where something else was understood."""
    columns, form = table
    task = "regression" if columns["y"].kind == "number" else "classification"
    with tempfile.TemporaryDirectory() as folder:
        source, name = written(Path(folder), columns, form)
        try:
            loaded = load(source, Path(folder) / name, target="y", task=task)
        except (DataError, ConfigurationError) as error:
            return _in_words(error, columns, form)
    wrong = differences(loaded, columns, "y")
    assert not wrong, f"{form}: {'; '.join(wrong)}"
    return "read"


def _in_words(error: DataError | ConfigurationError, columns: dict[str, Drawn], form: str) -> str:
    """Check that a refusal names what cannot be read: the format, or one of the cells as it stands in the file."""
    text = f"{error.message} {error.remedy}"
    if (words := FORMATS[form][3]) and re.search(words, text):
        return "refused for its format"
    odd = {column.cells[row] for column in columns.values() for row in column.odd}
    if any(cell in text for cell in odd):
        return "refused for an odd cell"
    cells = {cell.strip() for column in columns.values() for cell in column.cells if len(cell.strip()) > 1}
    assert any(repr(cell) in text or cell in text for cell in cells), f"{form}: {text}"
    return "refused for a spelling"


def _hold(draws: int) -> Counter[str]:
    counts: Counter[str] = Counter()

    @settings(
        max_examples=draws, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(tables())
    def hold(table: tuple[dict[str, Drawn], str]) -> None:
        counts[understood(table)] += 1

    hold()
    return counts


@pytest.mark.requirement("PIPE-2", "TRAIN-1")
def test_what_is_understood_of_a_table_is_what_was_drawn() -> None:
    counts = _hold(FEW)
    assert sum(counts.values()) >= FEW
    assert counts["read"] > FEW / 2, "most tables are to be read"


@pytest.mark.long
@pytest.mark.requirement("PIPE-2")
def test_in_thousands_of_tables_nothing_is_understood_otherwise_than_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    counts = _hold(MANY)
    with capsys.disabled():
        print(f"\n{sum(counts.values())} draws: {dict(counts)}")
    assert sum(counts.values()) >= MANY
    assert counts["read"] > MANY / 2, "most tables are to be read"
