"""Promotion: an alias moves to a version; `production` only through a gate of its own, and back by one call."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.ledger import record
from trainwright.tools.ledger.aliases import ARCHIVED, PRODUCTION, archived_after, way_back
from trainwright.tools.ledger.events import ModelPromoted
from trainwright.tools.owner import Grant, Request, ask, granted
from trainwright.tools.owner.request import how_to_grant
from trainwright.tools.registry.comparing import MIN_ROWS, ROWS_KEPT, Comparison, Difference, OnRows, compare_models
from trainwright.tools.registry.registering import require_unchanged
from trainwright.tools.registry.versions import Registered, model_folder, registered
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, get_run
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, GateRefusedError
from trainwright.trainer.run.results import Export

ALIAS = re.compile(r"[a-z][a-z0-9_.-]{0,39}")
RESERVED = {"latest", "previous"}
DOCUMENT = "phases/promotion.md"
NOT_COMPARED = "not_worse"
ON_TESTED = "not_worse_on_kept_rows"


class PromotionCheck(NamedTuple):
    """One line of the gate."""

    check: str
    measured: str
    required: str
    passed: bool


class Promotion(Answer):
    """An alias's move."""

    project: str
    alias: str
    version: str
    before: str | None
    folder: str
    """Always that of the version which the alias names: serve from it."""
    beside: str | None = None
    """What the gate's comparison with the version in production, or else the one before, shows."""
    back: str = "none was here before"
    """The call that leads back."""
    checks: list[dict[str, Any]] = Field(default_factory=list)
    """Of the gate: check, measured, required."""
    by_grant: str | None = None
    """The owner's request, where a check had failed."""


def promote(
    workspace: Workspace, project: str, version: str, alias: str = PRODUCTION, *, why: str = "", by: str = "an agent"
) -> Promotion:
    """Move an alias to a version; `previous` leads it back to the version before.

    `production` moves through its gate: the certified files, a certified figure, not worse than the version in
    production on the same rows, within the owner's bounds. The way back from a promotion, to what it replaced, is free.

    Raises:
        NotFoundError: no such project or version.
        ConfigurationError: not a name for an alias.
        ConflictError: the alias moved while its gate was at work.
        GateRefusedError: a check of the gate failed, which the ledger records; the owner may grant the move.
        IntegrityError: files of the version were changed.
    """
    _require_alias(alias)
    with workspace.session() as session:
        found = registered(session, workspace, project)
        number, held = found.version(version, alias), found.aliases.get(alias)
        require_unchanged(session, workspace, get_run(session, found.model(number).run_id))
    if number == held or (alias == ARCHIVED and number in archived_after(found.moves)):
        return _answer(workspace, project, alias, number, found.before(alias))
    model_folder(workspace, project, f"v{number}")  # compared with its release before anything is recorded
    is_back = number == way_back(found.moves, alias)
    is_gated = alias == PRODUCTION and not is_back
    compared = _compared(workspace, found, number, held) if is_gated else None
    checks = _gate(workspace, found, number, compared) if is_gated else []
    with workspace.session() as session:
        if registered(session, workspace, project).aliases.get(alias) != held:
            raise ConflictError(f"{alias} of {project} was moved meanwhile.", remedy=f"models(project={project!r})")
        asked = Grant(kind="promotion", name=alias, value=float(number))
        grant, refusal = _consent(session, workspace, found, asked, checks)
        event = ModelPromoted(
            alias=alias, version=number, before=held, outcome="refused" if refusal else "moved", by=by, why=why[:300],
            checks=[check._asdict() for check in checks], grant=grant.id if grant else "",
            back=is_back,
        )  # fmt: skip
        record(session, project, event)
    if refusal is not None:
        raise refusal
    answer = _answer(workspace, project, alias, number, held)
    told = [{key: value for key, value in check._asdict().items() if key != "passed"} for check in checks]
    beside = compared.in_words() if compared is not None else None
    by_grant = grant.id if grant is not None else None
    return answer.model_copy(update={"beside": beside, "checks": told, "by_grant": by_grant})


def _require_alias(alias: str) -> None:
    if not ALIAS.fullmatch(alias) or alias in RESERVED or re.fullmatch(r"v?[0-9]+", alias):
        raise ConfigurationError(
            f"{alias[:60]!r} is not a name for an alias.",
            remedy="production, staging, archived, or a word of your own: small letters, digits, '-', '_', '.'.",
            document=DOCUMENT,
        )


def _compared(workspace: Workspace, found: Registered, number: int, held: int | None) -> Comparison | None:
    """Compare a version with the one that it is to replace: the first in production with the release before it."""
    other = held if held is not None else max((one for one in found.models if one < number), default=None)
    if other is None:
        return None
    compared = compare_models(workspace, found.project, f"v{other}", f"v{number}")
    if held is None and compared.not_compared is not None:
        why = f"{compared.not_compared}; nothing is in production, and v{other} is the release before it"
        return compared.model_copy(update={"not_compared": why})
    return compared


def _gate(workspace: Workspace, found: Registered, number: int, compared: Comparison | None) -> list[PromotionCheck]:
    """Return the gate's checks of a version that is to be in production."""
    model = found.model(number)
    split = next((name for name in ("test", "validation") if found.metric in _certified(model, name)), None)
    value = _certified(model, split)[found.metric] if split is not None else None
    told = f"{split} {found.metric} {value:.6g}" if value is not None else f"no certified {found.metric}"
    checks = [
        PromotionCheck("certified", told, "the goal's metric, computed apart from the program", value is not None)
    ]
    export = workspace.run_directory(found.project, model.run_id).part(Export)
    bounds = workspace.settings.promotion
    latency, size = (
        (export.latency_ms or {}).get("batch_size_1_median"),
        export.files.get("model.onnx", {}).get("bytes"),
    )
    for name, measured, most in (("latency_ms", latency, bounds.max_latency_ms), ("bytes", size, bounds.max_bytes)):
        if most is not None:
            is_met = measured is not None and measured <= most
            told = "not measured" if measured is None else f"{measured:g}"
            checks.append(PromotionCheck(name, told, f"at most {most:g}, by the owner", is_met))
    if compared is not None:
        with workspace.snapshot() as session:
            maximize = get_project(session, found.project).goal["direction"] == "maximize"
        checks += not_worse(compared, split or "test", bounds.max_drop, maximize=maximize)
    return checks


def _certified(model: Any, split: str) -> dict[str, float]:
    return dict(model.figures.get(split, {}).get("metrics", {}))


def not_worse(compared: Comparison, decides: str, max_drop: float | None, *, maximize: bool) -> list[PromotionCheck]:
    """Return a check for each split: not worse by the whole interval; with a bound, no worse than it allows.

    Non-inferiority: the whole interval of the paired difference lies within the bound. Without one the interval decides
    too, and not the exact test: rows that are too few to show a version worse are no reason to serve it.

    Args:
        decides: the split whose figure is certified, on which rows must be left.
        max_drop: share of the first version's figure by which the second may be worse, by the owner.
    """
    rule = f"worse than {compared.first} by at most {100 * max_drop:g} %, shown" if max_drop is not None else None
    required = rule or f"not worse than {compared.first} by the whole interval, on the same rows"
    if compared.not_compared is not None:
        why = f"nothing, for they cannot be compared: {compared.not_compared}"
        return [PromotionCheck(NOT_COMPARED, why, required, passed=False)]
    parts: dict[str, tuple[str, Difference]] = {
        f"not_worse_on_{split}": (split, one) for split, one in compared.splits.items()
    }
    if compared.on_tested is not None:
        parts[ON_TESTED] = (f"test rows of {compared.earlier}", compared.on_tested)
    checks = [
        PromotionCheck(name, _measured(compared, *each), required, _holds(each[1], compared, max_drop, maximize))
        for name, each in parts.items()
    ]
    if few := _few(compared.splits.get(decides)):
        checks.append(PromotionCheck(f"not_worse_on_{decides}", few, required, passed=False))
    if decides not in compared.splits:
        told = f"{compared.first} was trained on every {decides} row of {compared.rows_of}"
        checks.append(PromotionCheck(f"not_worse_on_{decides}", told, required, passed=False))
    return checks + _of_slices(compared, decides, maximize) + _of_rows(compared)


def _measured(compared: Comparison, part: str, one: Difference) -> str:
    named = f"{compared.metric} " if one.difference is not None else ""
    return f"{part}: {named}{one}, on {one.rows} rows that neither trained on"


def _few(one: OnRows | None) -> str:
    """Return why the rows of the split that decides, a few that are left of many, show nothing; '' where they do."""
    if one is None or not one.left_out or one.rows >= MIN_ROWS:
        return ""
    return f"{one.rows} rows, and at least {MIN_ROWS} are needed where others are left out"


def _of_slices(compared: Comparison, decides: str, maximize: bool) -> list[PromotionCheck]:
    """Return a check for each slice in which the second version's whole interval is worse: a bound is of the whole."""
    slices = compared.splits[decides].slices if decides in compared.splits else {}
    required = f"no slice in which it is worse than {compared.first} by the whole interval"
    gone = [f"{name}: no row of the later version is in it" for name in compared.slices_gone]
    return [
        PromotionCheck("not_worse_on_slice", f"{decides}, {name}: {one}, on {one.rows} rows", required, passed=False)
        for name, one in slices.items()
        if one.interval is not None and _gains(one.interval, maximize)[1] < 0
    ] + [PromotionCheck("not_worse_on_slice", one, required, passed=False) for one in gone]


def _of_rows(compared: Comparison) -> list[PromotionCheck]:
    """Return whether the rows that tested the earlier version are as they were, where the later one is to replace it:
    else rows, targets or values could be picked for it."""
    if compared.tested is None or compared.rows_of != compared.second:
        return []
    required = f"at least {100 * ROWS_KEPT:g} %, with the same targets and the same values in its columns"
    told = f"{compared.tested} of {compared.earlier}"
    return [PromotionCheck("rows_kept", told, required, compared.tested.are_enough)]


def _holds(one: Difference, compared: Comparison, max_drop: float | None, maximize: bool) -> bool:
    """Return whether a part of the rows shows it."""
    if one.difference is None or one.interval is None:
        return False
    least, most = _gains(one.interval, maximize)
    figure = one.first if isinstance(one, OnRows) else compared.splits["test"].first
    return most >= 0 if max_drop is None else -least <= max_drop * abs(figure[compared.metric])


def _gains(interval: list[float], maximize: bool) -> tuple[float, float]:
    """Return by how much the second version is better at least and at most; negative: worse."""
    low, high = interval
    return (low, high) if maximize else (-high, -low)


def _consent(
    session: Session, workspace: Workspace, found: Registered, asked: Grant, checks: list[PromotionCheck]
) -> tuple[Request | None, GateRefusedError | None]:
    """Return the owner's grant by which an alias moves, and the refusal; neither where all checks passed.

    A grant is for one move.
    """
    project, used = found.project, {move.grant for move in found.moves}
    failed = [check for check in checks if not check.passed]
    is_kept = asked.name in workspace.settings.promotion.needs_grant
    if not failed and not is_kept:
        return None, None
    granted_now = granted(session, workspace, project)
    given = [request for request in granted_now if request.grant == asked and request.id not in used]
    if given:
        return given[-1], None
    reason = "; ".join(check.measured for check in failed)[:300]
    request = ask(session, workspace, project, asked, reason, used=used)
    lines = [f"{check.check}: measured {check.measured}; required {check.required}" for check in failed]
    lines += [f"the owner keeps {asked.name}"] if is_kept else []
    call = f"promote_model(project={project!r}, version='v{asked.value:g}', alias={asked.name!r})"
    better = (
        "A better version" if {NOT_COMPARED} - {check.check for check in failed} else "A version that can be compared"
    )
    grant = f"{better}, or the owner's grant: {how_to_grant([request])} Then {call}."
    return None, GateRefusedError(
        f"{asked.name} of {project} does not move to v{asked.value:g}. {' | '.join(lines)}",
        remedy=grant if request.state == "pending" else f"{better}: the owner has said no to this one.",
        document=DOCUMENT,
        details={"failed": [check.check for check in failed], "request": request.id},
    )


def _answer(workspace: Workspace, project: str, alias: str, number: int, held: int | None) -> Promotion:
    """Return the answer of an alias that is at a version now, its link led there."""
    folder = model_folder(workspace, project, f"v{number}" if alias == ARCHIVED else alias)
    given = {"project": project, "version": f"v{held}"} | ({} if alias == PRODUCTION else {"alias": alias})
    return Promotion(
        project=project,
        alias=alias,
        version=f"v{number}",
        before=f"v{held}" if held is not None else None,
        folder=str(folder),
        **({"back": str(NextCall(tool="promote_model", arguments=given))} if held is not None else {}),
        next=NextCall(tool="models", arguments={"project": project}, why="all versions, and what is in production"),
    )
