"""Report of a validation: a verdict for every check, and what was not checked. Light: the server reads it too."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Severity = Literal["error", "warning", "info"]
ORDER: dict[str, int] = {"error": 0, "warning": 1, "info": 2}
MOST_ROWS = 20
"""Row numbers that a verdict names."""


class Verdict(BaseModel):
    """Result of one check."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    family: str
    name: str
    """The check: `nulls`, `range`, `psi`, ..."""
    column: str | None = None
    split: str | None = None
    """The split that was checked; None: all rows."""
    severity: Severity = "error"
    """What it means if it is not passed: error stops a run, warning and info are reported."""
    passed: bool = True
    value: float | int | str | None = None
    """As measured."""
    bound: float | int | str | None = None
    """As expected."""
    count: int = 0
    """Offending rows."""
    rows: list[int] = Field(default_factory=list)
    """Their numbers, counted from 0 in the order of the source; at most 20."""
    text: str = ""
    """What was found, in one sentence."""
    remedy: str = ""
    kind: str | None = None
    """Of a leak: duplicate, near_duplicate, group, time, target, ..."""
    details: dict[str, Any] = Field(default_factory=dict)
    """More of the same, JSON types only."""

    @property
    def stops(self) -> bool:
        """Whether no run may be trained on such data."""
        return not self.passed and self.severity == "error"

    @property
    def place(self) -> str:
        """Name of the check with its column: `age.range`."""
        return f"{self.column}.{self.name}" if self.column else self.name


class NotChecked(BaseModel):
    """Something that was not checked, and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    what: str
    why: str


class Report(BaseModel):
    """All verdicts on some data, and what they are of."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    checks: list[Verdict] = Field(default_factory=list)
    not_checked: list[NotChecked] = Field(default_factory=list)
    rows: int = 0
    """Rows of the source."""
    rows_read: int = 0
    """Rows that were checked; fewer where only a sample could be."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Kind by column."""
    target: str | None = None
    expectations: dict[str, Any] = Field(default_factory=dict)
    """As they were applied, without defaults."""
    expectations_digest: str | None = None
    seconds: float = 0.0

    def worst_first(self) -> list[Verdict]:
        """Return the checks that are not passed: errors, warnings, then the rest, the most rows first."""
        failed = [check for check in self.checks if not check.passed]
        return sorted(failed, key=lambda check: (ORDER[check.severity], -check.count, check.place))

    @property
    def stopping(self) -> list[Verdict]:
        """The failed checks that forbid training."""
        return [check for check in self.worst_first() if check.stops]


# Page of a validation: one HTML file with all verdicts and plots, that needs nothing beside it.

STYLE = """
:root { color-scheme: light dark; --line: #8885; --error: #b3261e; --warning: #9a6700; --passed: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --error: #ff8a80; --warning: #e3b341; --passed: #56d364; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.error { color: var(--error); } .warning { color: var(--warning); } .passed { color: var(--passed); }
img { max-width: 100%; height: auto; background: white; border-radius: 4px; } .small { opacity: .75; }
"""
TITLES = {
    "distributions": "Distributions",
    "empty_cells": "Empty cells",
    "classes": "Class balance",
    "drift": "Drift against the reference",
}


def page(title: str, report: Report, pictures: Mapping[str, bytes]) -> str:
    """Return the page's HTML."""
    failed = report.worst_first()
    passed = [check for check in report.checks if check.passed]
    sample = f" ({report.rows_read} read)" if report.rows_read != report.rows else ""
    lead = f"{report.rows} rows{sample}, {len(report.columns)} columns, {len(report.checks)} checks in "
    lead += f"{report.seconds:.1f} s: {_counted(failed)}"
    parts = [
        f"<h1>{escape(title)}</h1><p>{escape(lead)}. Rows are counted from 0 in the order of the source.</p>",
        "<h2>Not passed</h2>" + (_table(failed) if failed else "<p class=passed>Everything passed.</p>"),
        "<h2>Not checked</h2>" + _list([f"{one.what}: {one.why}" for one in report.not_checked]),
        *(
            f'<h2>{TITLES[name]}</h2><img alt="{TITLES[name]}" src="data:image/png;base64,{_encoded(picture)}">'
            for name, picture in pictures.items()
        ),
        f"<h2>Passed</h2><details><summary>{len(passed)} checks</summary>{_table(passed)}</details>",
    ]
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{escape(title)}</title>"
    return (
        f"<!doctype html><html lang=en><head>{head}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _counted(failed: list[Verdict]) -> str:
    found = {name: sum(check.severity == name for check in failed) for name in ("error", "warning", "info")}
    return ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in found.items() if count) or "all passed"


def _table(checks: list[Verdict]) -> str:
    head = "<tr><th>check<th>severity<th>found<th>rows<th>remedy</tr>"
    return f"<div class=wide><table>{head}{''.join(map(_row, checks))}</table></div>"


def _row(check: Verdict) -> str:
    kind = "passed" if check.passed else check.severity
    rows = ", ".join(map(str, check.rows)) + (" …" if check.count > len(check.rows) > 0 else "")
    cells = [
        f"<td>{escape(check.place)}{_small(check.split)}",
        f"<td class={kind}>{kind}",
        f"<td>{escape(check.text)}",
        f"<td class=number>{check.count or ''}<br><span class=small>{escape(rows)}</span>" if rows else "<td>",
        f"<td>{escape(check.remedy)}",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _small(text: Any) -> str:
    return f" <span class=small>({escape(str(text))})</span>" if text else ""


def _list(lines: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}' for line in lines)}</ul>" if lines else "<p>Nothing was left out.</p>"


def _encoded(picture: bytes) -> str:
    return base64.b64encode(picture).decode()
