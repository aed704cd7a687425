"""Columns of numbers as people write them: read as what they are, or named with what their cells look like."""

from __future__ import annotations

from decimal import Decimal

from case import EITHER, REFUSED, ROWS, Case, Column, numbers
from tables import table
from writing import arrow, lines, workbook

MARKS = str.maketrans({",": ".", ".": ","})


def german(value: float) -> str:
    """Return a number as 1.234,50."""
    return f"{value:,.2f}".translate(MARKS)


def column(name: str, source: str, x: Column, *, sep: str = ",", **right: object) -> Case:
    """Return an input with one column of numbers beside the target."""
    return table(f"number-{name}", source, {"amount": x, **right.pop("more", {})}, dialect={"sep": sep}, **right)


def written(
    name: str, source: str, spell: object, words: str, *, sep: str = ",", high: float = 9000, **options: object
) -> Case:
    """Return an input whose column is to be read as numbers, or to be named with words of its spelling."""
    return column(name, source, numbers(spell, high=high, **options), sep=sep, may=EITHER, words=(words, r"\bamount\b"))


RANGE = {"low": 500, "high": 9000, "decimals": 0}
ODD = {17: ("tbd", None)}
CASES = [
    column("plain", "kind: nothing is odd", numbers()),
    column("decimal-comma", "JuliaData/CSV.jl#83", numbers(lambda v: f"{v:.2f}".replace(".", ",")), sep=";"),
    column("decimal-comma-quoted", "pola-rs/polars#23157", numbers(lambda v: f"{v:.2f}".replace(".", ","))),
    column("decimal-comma-three-digits", "kind: 0,123 is no thousand", numbers(lambda v: f"{v:.3f}".replace(".", ","),
          high=1, decimals=3), sep=";"),
    column("decimal-comma-scientific", "kind: 1,5E+03", numbers(lambda v: f"{v:.4E}".replace(".", ","), high=9000,
          decimals=0), sep=";"),
    column("decimal-comma-beside-points", "kind: a mark in each column", numbers(lambda v: f"{v:.2f}".replace(".",
          ",")), sep=";", more={"z": numbers(lambda v: f"{v:.2f}")}, may=EITHER, words=("z|amount",
          r"decimal|comma|\.\d")),
    written("thousands", "pola-rs/polars#18465", lambda v: f"{v:,}", r"\d,\d{3}|thousands", **RANGE),
    written("thousands-all-above", "tidyverse/readr#799", lambda v: f"{v:,}", r"\d,\d{3}|thousands", low=1000,
          high=90000, decimals=0),
    written("thousands-and-cents", "pandas-dev/pandas#4598", lambda v: f"{v:,.2f}", r"\d,\d{3}|thousands"),
    written("thousands-apostrophe", "kind: 1'234 as the Swiss write", lambda v: f"{v:,}".replace(",", "'"),
          r"\d['’]\d{3}|thousands", **RANGE),
    written("thousands-curly-apostrophe", "kind: 1’234 as Swiss Excel writes", lambda v: f"{v:,}".replace(",", "’"),
          r"\d['’]\d{3}|thousands", **RANGE),
    written("thousands-thin-space", "kind: narrow no-break spaces of French locales", lambda v: f"{v:,}".replace(",",
          "\u202f"), r"\d\s\d{3}|thousands|space|blank", **RANGE),
    written("thousands-no-break-space", "kind: no-break spaces of Excel", lambda v: f"{v:,}".replace(",", "\u00a0"),
          r"\d\s\d{3}|thousands|space|blank", **RANGE),
    written("thousands-space-comma", "kind: 1 234,50", lambda v: f"{v:,.2f}".replace(",", " ").replace(".", ","),
          r"\d \d{3}|thousands|space|blank", sep=";"),
    written("german", "pola-rs/polars#18797", german, r"\d\.\d{3},\d|thousands", sep=";"),
    column("german-whole-beside-commas", "JuliaData/CSV.jl#626", numbers(lambda v: f"{v:,}".replace(",", "."),
          **RANGE), sep=";", more={"z": numbers(lambda v: f"{v:.2f}".replace(".", ","))}, may=EITHER,
          words=(r"\bamount\b", r"\d\.\d{3}|thousands")),
    written("indian", "kind: 12,34,567",
          lambda v: f"{int(v) // 100000:d},{int(v) // 1000 % 100:02d},{int(v) % 1000:03d}", r"\d,\d\d,\d{3}|thousands",
          low=100000, high=9900000, decimals=0),
    written("dollar", "h2oai/datatable#1359", lambda v: f"${v:,.2f}", r"\$"),
    written("dollar-small", "h2oai/datatable#1359", lambda v: f"${v:.2f}", r"\$", high=90),
    written("euro-behind", "firefly-iii/firefly-iii#1087", lambda v: f"{german(v)} €", "€", sep=";"),
    written("pound", "kind: £ in front", lambda v: f"£{v:,.0f}", "£", decimals=0),
    written("currency-code", "kind: USD in front", lambda v: f"USD {v:.2f}", "USD"),
    column("currencies-mixed", "kind: dollars beside euros",
          Column([f"{'$' if row % 3 else '€'}{10 + row}.50" for row in range(ROWS)], [None] * ROWS, ("none",)),
          may=EITHER, words=(r"\$", "€", r"\bamount\b")),
    written("percent", "dotnet/machinelearning#3826", lambda v: f"{v:.1f}%", "%", high=100, decimals=1),
    column("percent-beside-shares", "kind: 45% beside 0.45",
          Column([f"{row}%" if row % 2 else f"{row / 100}" for row in range(ROWS)], [None] * ROWS, ("none",)),
          may=EITHER, words=("%", r"\bamount\b")),
    written("kilograms", "dotnet/machinelearning#3826", lambda v: f"{v:.1f} kg", "kg", high=100, decimals=1),
    written("kilograms-close", "kind: 12.5kg", lambda v: f"{v:.1f}kg", "kg", high=100, decimals=1),
    written("degrees", "kind: 21.5 °C", lambda v: f"{v:.1f} °C", "°C", high=40, decimals=1),
    column("units-mixed", "kind: 12 kg beside 900 g",
          Column([f"{row + 1} kg" if row % 4 else f"{100 + row} g" for row in range(ROWS)], [None] * ROWS, ("none",)),
          may=EITHER, words=(r"\bkg\b", r"\bg\b", r"\bamount\b")),
    written("unicode-minus", "kind: U+2212 as sign", lambda v: f"{v:.2f}".replace("-", "\u2212"),
          "\u2212|U\\+2212|minus", low=-50, high=50),
    written("brackets", "Mottie/tablesorter#47", lambda v: f"({-v:.2f})" if v < 0 else f"{v:.2f}", r"\(\d", low=-50,
          high=50),
    written("brackets-dollar", "buckets/application#740", lambda v: f"(${-v:,.2f})" if v < 0 else f"${v:,.2f}", r"\$",
          low=-5000, high=5000),
    written("minus-behind", "kind: 12.50- as SAP writes", lambda v: f"{-v:.2f}-" if v < 0 else f"{v:.2f}",
          r"\d-|minus|sign", low=-50, high=50),
    written("minus-dollar", "quentinsf/icsv2ledger#83", lambda v: f"-${-v:.2f}" if v < 0 else f"${v:.2f}", r"\$",
          low=-50, high=50),
    column("plus", "kind: +5.5", numbers(lambda v: f"{v:+.2f}", low=-50)),
    column("scientific", "kind: 1.5e-03", numbers(lambda v: f"{v:.6e}", high=1, decimals=6)),
    column("hexadecimal", "kind: 0x1F is no number", Column([hex(row) for row in range(ROWS)],
          [hex(row) for row in range(ROWS)], ("category", "text", "ignore"))),
    column("hexadecimal-of-digits", "kind: 1e5 among hashes is no number",
          Column([f"{(row * 7919) % 65536:04x}" for row in range(ROWS)], [None] * ROWS, ("category", "text",
          "ignore")), may=EITHER, words=(r"\bamount\b",)),
    column("underscores", "kind: 1_000 is Python's", Column([f"{1000 + row:_}" for row in range(ROWS)], [None] * ROWS,
          ("none",)), may=EITHER, words=(r"\bamount\b",)),
    column("blanks-around", "kind: padded cells", numbers(lambda v: f"  {v:.2f} ")),
    column("tabs-around", "kind: padded cells", numbers(lambda v: f"\t{v:.2f}")),
    column("fullwidth", "kind: full-width digits",
          numbers(lambda v: f"{v:.2f}".translate({ord(c): 0xFF10 + int(c) for c in "0123456789"})), may=EITHER,
          words=(r"\bamount\b",)),
    column("leading-point", "kind: .5 and 5.", numbers(lambda v: f"{v:.3f}".lstrip("0"), high=0.99, decimals=3)),
    column("beyond-float32", "databricks/spark-csv#292", Column([str(10**15 + row) for row in range(ROWS)],
          [None] * ROWS, ("none",)), may=EITHER, words=(r"\bamount\b", "digits|precision|float32|identifier|exact")),
    column("beyond-float32-by-range", "kind: 1e39", numbers(odd={9: ("1e39", None)}), may=REFUSED,
          words=("1e39|finite|float32", "line 11")),
    column("infinite", "kind: inf among numbers", numbers(odd={9: ("inf", None)}), may=REFUSED, words=("inf",
          "line 11")),
    column("one-odd-word", "dotnet/machinelearning-modelbuilder#557", numbers(odd=ODD), may=EITHER, words=("tbd",
          "line 19"), named=("tbd",)),
    column("few-odd-words", "kind: words in 10 % of the rows",
          numbers(odd=dict.fromkeys(range(0, ROWS, 10), ("see note", None))),
          may=EITHER, words=("see note", "line 2"), named=("see note",)),
    column("below-detection", "kind: <0.5 in a laboratory's file",
          numbers(odd=dict.fromkeys(range(3, ROWS, 9), ("<0.5", None))),
          may=EITHER, words=("<0.5", "line 5"), named=("<0.5",)),
    column("dash-for-none", "kind: - where nothing was measured", numbers(odd={4: ("-", None), 60: ("-", None)}),
          may=EITHER, words=("'-'", "line 6"), named=("'-'",)),
    column("holes", "kind: empty, NA, null, None", numbers(odd={3: ("", None), 20: ("NA", None), 40: ("null", None),
          50: ("None", None), 60: ("#N/A", None), 70: ("n/a", None)})),
    column("excel-errors", "kind: #DIV/0! and #REF!", numbers(odd={3: ("#DIV/0!", None), 44: ("#REF!", None)}),
          may=EITHER, words=("#DIV/0!", "line 5"), named=("#DIV/0!",)),
    column("decimals-of-parquet", "pola-rs/polars#18798", Column([f"{row}.25" for row in range(ROWS)],
          [row + 0.25 for row in range(ROWS)]), use="parquet", path="rows.parquet",
          write=lambda folder: arrow({"amount": Column([Decimal(f"{row}.25") for row in range(ROWS)], []),
          "y": numbers(float)}, "rows.parquet")(folder)),
    column("texts-in-parquet", "kind: numbers kept as text in parquet", numbers(), use="parquet", path="rows.parquet",
          write=arrow({"amount": numbers(), "y": numbers(float)}, "rows.parquet")),
    column("texts-in-json", "kind: numbers kept as text in JSON", numbers(), use="jsonl", path="rows.jsonl",
          write=lines({"amount": numbers(), "y": numbers(float)})),
    column("mixed-in-json", "kind: 5 beside \"5\" in JSON", numbers(), use="jsonl", path="rows.jsonl",
          write=lines({"amount": Column([v if row % 2 else str(v) for row, v in enumerate(numbers().meant)], []),
          "y": numbers(float)})),
    column("texts-in-excel", "pandas-dev/pandas#61539", numbers(), path="rows.xlsx",
          write=workbook({"amount": numbers(), "y": numbers(float)}), may=EITHER, words=("Excel|workbook|spreadsheet",
          )),
    column("booleans-as-numbers", "kind: 0 and 1", numbers(decimals=0, high=1.99, kinds=("number", "boolean",
          "category"))),
    column("dot-thousands-alone", "kind: 1.234 is a decimal where nothing says otherwise",
          numbers(lambda v: f"{v:.3f}", low=1, high=9, decimals=3)),
    column("late-odd-spelling", "kind: the last rows are in another spelling",
          numbers(odd=dict.fromkeys(range(110, ROWS), ("1,5", 1.5))),
          sep=";", may=EITHER, words=("1,5", "line 112"), named=("1,5",)),
]  # fmt: skip
