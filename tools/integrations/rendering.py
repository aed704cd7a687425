"""Rendering of a part's files from a signature: templates of skills/integration-helpers, and files taken as they are.

`NAME.j2` is rendered to NAME, `dot_NAME` becomes .NAME; of `kinds/table.py`, `kinds/text.py` … the one of the model's
kind of input becomes `rows.py` beside that folder, and of `tasks/regression.py` … the one of its task `answers.py`;
`tasks/own.py` where predict.py itself words the answers.
`by_release.sql` gets a name that no other release has.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from trainwright.tools.integrations.own_code import require_names_apart, with_packages
from trainwright.tools.integrations.signature import DIGITS
from trainwright.trainer.base.text import one_line
from trainwright.trainer.base.time_units import DAY

if TYPE_CHECKING:
    from jinja2 import Environment

    from trainwright.tools.integrations.inputs import Inputs
    from trainwright.tools.integrations.signature import Signature

TEMPLATES = Path(__file__).resolve().parents[2] / "skills" / "integration-helpers" / "templates"
RENDERED, HIDDEN, NAMED = ".j2", "dot_", "by_release"
SIGNATURE, REQUIREMENTS = "signature.json", "requirements.txt"


def rendered(part: str, signature: Signature) -> dict[str, str]:
    """Return the texts of a part's files, by path relative to its folder.

    Args:
        part: `service`, `form`, `database` or `client`.

    Raises ConfigurationError where a file of the user's has the name of one of the service's.
    """
    found = {}
    values = {
        "signature": signature, "example": example_row(signature), "slug": slug(signature.project),
        "release_file": release_file(signature),
    }  # fmt: skip
    for path in sorted((TEMPLATES / part).rglob("*")):
        name = path.relative_to(TEMPLATES / part)
        target = _target(PurePosixPath(name.as_posix()), signature)
        if target is None or not path.is_file() or "__pycache__" in name.parts:
            continue
        if path.suffix == RENDERED:
            template = _environment().get_template(path.relative_to(TEMPLATES).as_posix())
            found[target] = template.render(values).strip() + "\n"
        else:
            found[target] = path.read_text(encoding="utf-8")
    if part == "service":
        require_names_apart(found, signature)
        found[REQUIREMENTS] = with_packages(found[REQUIREMENTS], signature.packages)
        found[SIGNATURE] = json.dumps(signature.model_dump(), indent=2, ensure_ascii=False) + "\n"
    return found


def example_row(signature: Signature) -> Any:
    """Return a row of the right form, for documents: medians, first choices."""
    inputs = signature.inputs
    if inputs.kind == "table":
        return {field.name: _example(field) for field in inputs.fields}
    if inputs.kind == "series":
        return {"past": _past(inputs)}
    if inputs.kind == "picture":
        return {"picture": "BASE64 of a PNG or JPEG file"}
    if inputs.kind == "own":
        return {"file": f"BASE64 of {inputs.takes}"} if inputs.is_file else {"input": inputs.example}
    if inputs.kind == "prompt":
        return {"prompt": "some words", "most_tokens": 32, "temperature": 0.8, "seed": 0}
    return {"text": "some words"} if inputs.kind == "text" else {"values": _zeros(inputs.shape)}


def slug(name: str) -> str:
    """Return a name for packages and containers: lower case, letters, digits and hyphens."""
    kept = "".join(each if each.isascii() and each.isalnum() else "-" for each in name.lower()).strip("-")
    return kept or "model"


def release_file(signature: Signature) -> str:
    """Return the name, without its ending, of a file that each release has for itself."""
    number = "" if signature.release.number is None else f"-{signature.release.number}"
    return f"{slug(signature.project)}{number}-{signature.release.program_sha256[:DIGITS]}"


def _example(field: Any) -> Any:
    if field.kind == "category":
        return next(iter(field.choices), "")
    if field.kind == "date":
        return _written(datetime(2026, 1, 31, 12, tzinfo=UTC), field.format, has_time=field.has_time)
    if field.kind == "number":
        return field.median or 0
    return True if field.kind == "boolean" else "some words"


def _past(inputs: Inputs) -> list[dict[str, Any]]:
    """Return as many rows of a series as the model sees, a step apart."""
    every, row = inputs.every or {}, {field.name: _example(field) for field in inputs.fields}
    length, dated = every["length"], next((field for field in inputs.fields if field.name == inputs.time), None)
    has_time = dated.has_time if dated is not None else every["unit"] == "second" and length % DAY != 0
    found = []
    for place in range(inputs.window or 0):
        if every["unit"] == "number":
            time: Any = place * length
        else:
            month = round(place * length) if every["unit"] == "month" else 0
            day = datetime(2026 + month // 12, month % 12 + 1, 1, tzinfo=UTC)
            later = day + timedelta(seconds=place * length * (every["unit"] == "second"))
            time = _written(later, dated.format if dated is not None else None, has_time=has_time)
        found.append({str(inputs.time): None, **row, str(inputs.time): time})  # which stands first
    return found


def _written(moment: datetime, form: str | None, *, has_time: bool) -> str:
    day = {None: "%Y-%m-%d", "year-month-day": "%Y-%m-%d", "day.month.year": "%d.%m.%Y", "day/month/year": "%d/%m/%Y"}
    return moment.strftime(day.get(form, "%m/%d/%Y") + (" %H:%M" if has_time else ""))


def _zeros(shape: list[int]) -> Any:
    return [_zeros(shape[1:]) for _ in range(shape[0])] if shape else 0


def _target(name: PurePosixPath, signature: Signature) -> str | None:
    """Return where a template's file goes; None for one of another kind of input or another task."""
    task = signature.task if signature.answers is None else "own"
    for folder, wanted, becomes in (("kinds", signature.inputs.kind, "rows"), ("tasks", task, "answers")):
        if folder in name.parts:
            place = name.parts.index(folder)
            if name.name.partition(".")[0] != wanted:
                return None
            name = PurePosixPath(*name.parts[:place], f"{becomes}{name.name.removeprefix(wanted)}")
    parts = [f".{one.removeprefix(HIDDEN)}" if one.startswith(HIDDEN) else one for one in name.parts]
    parts[-1] = parts[-1].removesuffix(RENDERED)
    if parts[-1].partition(".")[0] == NAMED:
        parts[-1] = f"{release_file(signature)}{parts[-1].removeprefix(NAMED)}"
    return "/".join(parts)


def _sql(value: Any) -> str:
    """Return a literal of PostgreSQL."""
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return repr(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "'" + text.replace("'", "''").replace("\0", "") + "'"


def _plain(value: Any) -> str:
    """Return a text in one line that ends no code span."""
    return one_line(str(value)).replace("`", "'")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - code, not HTML: values pass `sql`, `python`, `tojson` or `plain`
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    environment.filters.update(sql=_sql, python=repr, plain=_plain)
    return environment
