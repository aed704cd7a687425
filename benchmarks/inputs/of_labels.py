"""Labels and group keys: joined only where it is said, else named; class names stand in the first answer."""

from __future__ import annotations

from case import EITHER, READ, REFUSED, ROWS, Case, Column, chosen, followed
from tables import table
from writing import delimited, several

PAIR = ["no", "yes"]


def spelt(name: str, source: str, odd: dict[int, str], said: tuple[str, ...], *, pair: list[str] | None = None) -> Case:
    """Return an input of two classes, of which few rows write a name otherwise: these are to be named."""
    plain = chosen(pair or PAIR)
    cells = [odd.get(row, cell) for row, cell in enumerate(plain.cells)]
    return table(
        f"label-{name}", source, {"y": Column(cells, cells, ())}, target=None, may=EITHER, words=said, named=said
    )


def names(name: str, source: str, classes: list[str], **options: object) -> Case:
    """Return an input of these classes, which all stand in the first answer."""
    return table(f"label-{name}", source, {"y": chosen(classes)}, target=classes, **options)


def of_splits(name: str, source: str, late: dict[str, str], said: tuple[str, ...], *, may: str = EITHER) -> Case:
    """Return an input whose test rows write the classes otherwise than its train rows."""
    parts = ["test" if row % 5 == 4 else "validation" if row % 5 == 3 else "train" for row in range(ROWS)]
    cells = [
        late.get(cell, cell) if part == "test" else cell
        for cell, part in zip(chosen(["<=50K", ">50K"]).cells, parts, strict=True)
    ]
    columns = {"y": Column(cells, cells, ()), "part": Column(parts, parts, ())}
    config = {
        "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}, "split": {"by": "given", "column": "part"}}
    }
    return table(
        f"label-{name}",
        source,
        columns,
        target=None,
        config=config,
        may=may,
        words=said,
        named=said if may != REFUSED else (),
    )


def grouped(name: str, source: str, spell: object, **options: object) -> Case:
    """Return an input split by a group whose key is written in two ways: no group is in two splits."""
    keys = [row // 6 for row in range(ROWS)]
    cells = [spell(key, row) for row, key in enumerate(keys)]

    def holds(seen: object) -> str:
        rows = [
            [round((value - 1) / 3) for value in split["input"][:, seen.data["places"]["size"]].tolist()]
            for split in seen.splits.values()
        ]
        shared = {keys[row] for row in rows[0]} & {keys[row] for row in rows[1]}
        return f"groups {sorted(shared)} are in validation and in test" if shared else ""

    config = {
        "data": {
            "use": "csv",
            "args": {"path": "rows.csv", "target": "y"},
            "split": {"by": "group", "group": "patient", "validation": 0.3, "test": 0.3},
        }
    }
    return table(
        f"group-{name}",
        source,
        {"patient": Column(cells, cells, ())},
        config=config,
        holds=holds,
        may=EITHER,
        words=("patient",),
        **options,
    )


CASES = [
    names("two", "kind: nothing is odd", PAIR, named=(r"\bno\b", r"\byes\b")),
    names("three-in-the-answer", "kind: class names stand in the first answer", ["early", "late", "never"],
          named=("early", "late", "never")),
    spelt("dot", "google/eng-edu#78", dict.fromkeys((2, 30, 77), "yes."), (r"yes\.", "yes")),
    spelt("case", "kind: Yes beside yes", dict.fromkeys((2, 30, 77), "Yes"), ("Yes", "yes")),
    spelt("capitals", "kind: YES beside yes", dict.fromkeys((2, 30, 77), "YES"), ("YES", "yes")),
    spelt("inner-blanks", "apple/turicreate#1531", dict.fromkeys((2, 30, 77), "very  good"), ("very  good",),
          pair=["bad", "very good"]),
    spelt("no-break-space", "kind: a no-break space in a name", dict.fromkeys((2, 30, 77), "very\xa0good"),
          ("very.good",), pair=["bad", "very good"]),
    spelt("underscore", "kind: very_good beside very good", dict.fromkeys((2, 30, 77), "very_good"), ("very_good",
          "very good"), pair=["bad", "very good"]),
    spelt("decomposed", "kind: é in two codings", dict.fromkeys((2, 30, 77), "café"),
          ("cafe\u0301|combin|coding|NF[CD]",), pair=["bar", "caf\u00e9"]),
    spelt("zero-width", "kind: a zero-width space in a name", dict.fromkeys((2, 30, 77), "yes\u200b"), ("yes",)),
    spelt("hyphen", "kind: a hyphen and a dash", dict.fromkeys((2, 30, 77), "re–entry"), ("re\u2013entry",
          "re-entry"), pair=["exit", "re-entry"]),
    table("label-blank-behind", "apple/turicreate#1531", {"y": chosen(PAIR, lambda v: v + " " if v == "yes" else v)},
          target=PAIR),
    table("label-blank-behind-some", "apple/turicreate#1531", {"y": Column([cell + " " * (row % 2) for row,
          cell in enumerate(chosen(PAIR).cells)], chosen(PAIR).meant)}, target=PAIR),
    table("label-one-and-one-point", "kind: 1 beside 1.0", {"y": Column([f"{v}.0" if row % 3 == 0 else str(v) for row,
          v in enumerate(chosen([1, 2, 3]).meant)], chosen([1, 2, 3]).meant)}, target=["1", "2", "3"], may=EITHER,
          words=(r"1\.0", r"\b1\b")),
    table("label-zeros-before", "kind: 01 beside 1", {"y": Column([f"0{v}" if row % 3 == 0 else str(v) for row,
          v in enumerate(chosen([1, 2, 3]).meant)], [None] * ROWS, ())}, target=None, may=EITHER, words=("01",
          r"\b1\b"), named=("'?01'?", "1")),
    names("codes-with-zeros", "dathere/qsv#648", ["007", "010", "100"]),
    names("unicode", "kind: names in other scripts", ["да", "нет", "可能"], named=("да", "可能")),
    names("punctuated", "kind: commas, quotes and semicolons in names", ["a, b", 'say "c"', "d;e"]),
    names("like-booleans", "kind: true and false among names", ["true", "false", "unsure"]),
    names("like-missing", "datasets/country-codes#38", ["DE", "NA", "US"], may=EITHER, words=("NA",)),
    names("none-is-a-class", "kind: None as a class", ["None", "mild", "severe"], may=EITHER, words=("None",)),
    names("like-dates", "kind: names that are dates", ["2023-Q1", "2023-Q2", "2023-Q3"]),
    names("ranges", "kind: 10-20 among names", ["0-10", "10-20", "20+"]),
    names("inequalities", "google/eng-edu#78", ["<=50K", ">50K"]),
    of_splits("dot-in-test", "google/eng-edu#78", {">50K": ">50K.", "<=50K": "<=50K."}, (r">50K\.", "train|test")),
    of_splits("case-in-test", "kind: capitals in the test file alone", {">50K": ">50k"}, (">50k", "train|test")),
    of_splits("absent-from-train", "kind: a class that train has never", {">50K": "unknown"}, ("unknown", "train")),
    table("label-rare", "kind: a class of one row", {"y": Column(["rare", *chosen(PAIR).cells[1:]], ["rare",
          *chosen(PAIR).cells[1:]], ())}, target=None, may=EITHER, words=("rare", "1"), named=("rare",)),
    table("label-in-two-files", "google/eng-edu#78", {"y": Column([*chosen(PAIR).cells,
          *[c.title() for c in chosen(PAIR).cells]], [])}, target=None, path=["a.csv", "b.csv"], rows=None,
          write=several(delimited({"y": chosen(PAIR)}, "a.csv"),
          delimited({"y": Column([c.title() for c in chosen(PAIR).cells], [])}, "b.csv",
          change=lambda t: t.replace(",0.", ",1."))), may=EITHER, words=("Yes", "yes"), named=("Yes", "yes")),
    grouped("points", "kind: group 1 beside 1.0", lambda key, row: f"{key}.0" if row % 2 else str(key)),
    grouped("blanks", "kind: a blank behind the group", lambda key, row: f"p{key}" + " " * (row % 2)),
    grouped("plain", "kind: nothing is odd", lambda key, row: f"p{key}"),
    table("label-numbers-as-names", "kind: categories of numbers named as text",
          {"y": Column([f"class {int(3 * v)}" for v in followed()], [f"class {int(3 * v)}" for v in followed()])},
          target=["class 0", "class 1", "class 2"], may=READ),
]  # fmt: skip
