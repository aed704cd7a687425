"""Estimate of costs: the project's work on each priced device, the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.costs.answer import CostAnswer, PlatformCost
from trainwright.tools.costs.hours import restart_seconds, spot_costs
from trainwright.tools.costs.measured import (
    Measured,
    Restart,
    checkpoint_bytes,
    measured_latency_seconds,
    measured_restart,
    measured_work,
)
from trainwright.tools.costs.pricing import CPU, CostRequest, Work, device_of_row, device_of_run, priced, wanted_rows
from trainwright.tools.costs.scaling import OTHER_CPU_TIMES
from trainwright.tools.documents import SKILL
from trainwright.tools.environments import runtime_of
from trainwright.tools.estimation import estimate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers.worker_wall import walled
from trainwright.tools.ledger import Look
from trainwright.tools.limits import limit_table
from trainwright.tools.limits.counted_price import counted_price
from trainwright.tools.training_architect.estimates import prices_in_force
from trainwright.tools.training_architect.hardware import TABLE, Device
from trainwright.tools.training_orchestrator import locations, refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError, TrainwrightError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.estimation.prices import OWN, OWNERS, TO_WRITE, Price, PriceList, load_prices
from trainwright.trainer.estimation.results import Work as CountedWork
from trainwright.trainer.run import write_generated

MAX_LISTED = 6
TRACE_SECONDS = 40.0
STATE_BYTES, KEPT = 12.0, 2
"""Of a parameter in a checkpoint: its weight and Adam's two moments; and the checkpoints that a run keeps."""


@dataclass
class _Facts:
    """What the project's records say, read in one session."""

    config: TrainingConfig
    code_root: Path
    measured: Measured | None
    restart: Restart | None
    latency: tuple[float, str] | None
    checkpoint_bytes: int
    parameters: int | None = None
    """Of the model, where its work was counted."""
    limit: tuple[str, NextCall | None] = ("", None)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Priced:
    """The rows with their sums."""

    work: Work
    lines: list[PlatformCost]
    not_priced: list[str]
    rows: list[Price]
    lost_seconds: float
    """By an interruption."""
    restart: str
    """That in words."""


def estimate_cost(
    workspace: Workspace,
    request: CostRequest,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    counts: bool = True,
) -> CostAnswer:
    """Return what the request costs on each device that the file of prices names.

    Hours come from the project's newest sealed run of the present configuration, else from its probe, else from work
    counted before anything ran. Nothing that an agent says changes them.

    Args:
        counts: whether work may be counted, which runs the project's code.

    Raises:
        NotFoundError: no such project, or no file of prices.
        ConfigurationError: unknown hardware, a file of prices that does not fit or is empty, or no hours at all.
    """
    refresh_project(workspace, request.project)
    facts = _facts(workspace, request)
    prices = prices_of(workspace, facts.code_root, request.prices)
    owners = workspace.path / TABLE
    rows, not_priced = wanted_rows(prices, request.hardware, owners)
    source = device_of_run(facts.measured, owners) if facts.measured is not None else None
    devices = [(row, device_of_row(row, owners)) for row in rows]
    counted = None
    if counts:
        on = [device for _, device in devices]
        counted = counted_work(workspace, facts, on, source=source, should_stop=should_stop)
    else:
        facts.notes.append(
            "the work of a step was not counted, which runs the project's code: this caller may only read"
        )
    work = _work(facts, request, source, counted)
    lost, restart = restart_seconds(facts.restart)
    found = []
    for row, device in devices:
        line = priced(row, device, work, prices, lost)
        if isinstance(line, str):
            not_priced.append(f"{row.platform} {row.accelerator}: {line}")
        else:
            found.append(line)
    if not found:
        raise _no_hours(request, not_priced)
    return _answer(workspace, request, prices, facts, _Priced(work, found, not_priced, rows, lost, restart))


def _facts(workspace: Workspace, request: CostRequest) -> _Facts:
    with workspace.session() as session:
        evidence = Evidence(session, workspace, request.project, inspection=Look())
        measured = measured_work(evidence)
        run = evidence.run(measured.run) if measured is not None else None
        return _Facts(
            config=evidence.config,
            code_root=Path(evidence.project.code_root),
            measured=measured,
            restart=measured_restart(evidence),
            latency=measured_latency_seconds(evidence),
            checkpoint_bytes=checkpoint_bytes(run)[1] if run is not None else 0,
        )


def counted_work(
    workspace: Workspace, facts: _Facts, devices: list[Device], *, source: Device | None,
    should_stop: Callable[[], bool],
) -> CountedWork | None:  # fmt: skip
    """Return the work of a step as counted; None where a processor was measured and asked for, or it cannot be traced.

    A GPU always needs it: its predictions are priced by the forward pass, also where its training was measured. It is
    counted of whole epochs: how many a run makes of them, max_steps or the call decides later.
    """
    is_measured = source is not None and source.kind == "cpu"
    if is_measured and all(device.kind == "cpu" for device in devices):
        return None
    kind: Any = "cuda" if any(device.kind == "cuda" for device in devices) else "cpu"
    try:
        found = estimate(
            _of_whole_epochs(facts.config), facts.code_root, device_kind=kind,
            connections=locations.connections(workspace.settings, facts.config),
            runtime=runtime_of(workspace, facts.config, facts.code_root),
            by=walled(workspace.path, workspace.settings.wall(workspace.path)),
            cache=workspace.path / "cache" / "estimates", timeout_seconds=TRACE_SECONDS, should_stop=should_stop,
        )  # fmt: skip
        facts.parameters = found.memory.parameters
    except TrainwrightError as error:
        facts.notes.append(
            f"the work of a step was not counted, so predictions on GPUs have no price: {error.message[:160]}"
        )
        return None
    return found.work


def _of_whole_epochs(config: TrainingConfig) -> TrainingConfig:
    training = config.training
    if training.max_steps is None:
        return config
    return config.model_copy(update={"training": training.model_copy(update={"max_steps": None})})


def _work(facts: _Facts, request: CostRequest, source: Device | None, counted: CountedWork | None) -> Work:
    config, search = facts.config, facts.config.search
    trials = request.trials if request.trials is not None else (search.trials if search is not None else 0)
    return Work(
        request=request, config=config, epochs=request.epochs or config.training.epochs, trials=trials,
        measured=facts.measured, source=source, counted=counted, latency_seconds=facts.latency,
        stored_bytes=facts.checkpoint_bytes * (request.runs + trials),
    )  # fmt: skip


def _answer(
    workspace: Workspace, request: CostRequest, prices: PriceList, facts: _Facts, priced_rows: _Priced
) -> CostAnswer:  # fmt: skip
    work, not_priced, restart = priced_rows.work, priced_rows.not_priced, priced_rows.restart
    found = sorted(priced_rows.lines, key=lambda line: line.total[1])
    spot = spot_costs(priced_rows.rows, priced_rows.lost_seconds, request.interruptions_per_day)
    limit, call = owner_limit(workspace, request.project, found[0])
    measured = facts.measured
    return CostAnswer(
        project=request.project,
        currency=prices.currency,
        basis=_basis(measured),
        work=work.told(),
        platforms=found[:MAX_LISTED],
        left_out=len(found) - MAX_LISTED if len(found) > MAX_LISTED else None,
        not_priced=not_priced[:MAX_LISTED] or None,
        spot=spot[:MAX_LISTED] or None,
        restart=restart if spot or request.interruptions_per_day is not None else None,
        checkpoints=_checkpoints(facts, work),
        owner_limit=limit,
        assumed=[*work.assumed(), *facts.notes, *_other_processors(found), *_without_predictions(found)],
        warnings=_warnings(prices, found) or None,
        next=call or _next(request, measured),
    )


def _checkpoints(facts: _Facts, work: Work) -> dict[str, Any] | None:
    """Return what all runs keep on disk, measured or counted; None where neither says."""
    if work.stored_bytes:
        size, how = float(work.stored_bytes), "as the measured run keeps them"
    elif facts.parameters:
        size = facts.parameters * STATE_BYTES * KEPT * (work.request.runs + work.trials)
        how = f"counted: weights and two moments of {facts.parameters} parameters in fp32, best and last"
    else:
        return None
    return {"gb": float(f"{size / 1e9:.2g}"), "how": how}


def _other_processors(found: list[PlatformCost]) -> list[str]:
    """Return the sentence on processors that are not known to be the one that measured; none without such a row."""
    rows = dict.fromkeys(
        line.platform for line in found if line.accelerator.upper() == CPU and line.platform.lower() != OWN
    )
    low, high = OTHER_CPU_TIMES
    text = (
        f"a CPU of {', '.join(list(rows)[:MAX_LISTED])} takes {low:g} to {high:g} times as long as the one that "
        f"measured: its row says neither cores nor speed (a row of platform {OWN} is the machine that measured)"
    )
    return [text] if rows else []


def _without_predictions(found: list[PlatformCost]) -> list[str]:
    """Return the sentences that name devices whose predictions have no price; none where all have one."""
    missing = {line.accelerator for line in found if line.per_1000_requests is None and not line.spot}
    gpus = sorted(missing - {CPU})
    said = [f"predictions on {CPU} have no price: no export measured a processor's latency"] if CPU in missing else []
    if gpus:
        said.append(f"predictions on {', '.join(gpus[:MAX_LISTED])} have no price: their work could not be counted")
    return said


def _basis(measured: Measured | None) -> str:
    if measured is None:
        return "no run of this configuration was measured: work counted before anything ran, and hours by a roofline"
    return (
        f"{measured.run} ({measured.kind}, sealed): {measured.step_seconds:.3g} s a step, "
        f"{measured.steps_per_epoch:g} steps an epoch, {measured.other_seconds:.3g} s of an epoch beside them, "
        f"{measured.start_seconds:.3g} s to start"
    )


def _warnings(prices: PriceList, found: list[PlatformCost]) -> list[str]:
    used = {(line.platform, line.accelerator, bool(line.spot)) for line in found[:MAX_LISTED]}
    rows = [row for row in prices if (row.platform, row.accelerator, row.spot) in used]
    old = [f"{row.platform} {row.accelerator}: price of {row.date}, {row.age_days()} days old; look again: {row.source}"
           for row in rows if row.is_old()]  # fmt: skip
    ahead = [f"{row.platform} {row.accelerator}: its date {row.date} lies ahead" for row in rows if row.age_days() < -1]
    invented = [f"{prices.path.name} says that its prices are invented (example: true): none of these sums is real"]
    if prices.is_second_hand:  # of which each row would be warned of alone
        days = [row.date for row in rows if row.date is not None and row.platform.lower() != OWN]
        since = f" of {min(days)} to {max(days)}, up to {max(row.age_days() for row in rows)} days old" if days else ""
        sources = "; ".join(dict.fromkeys(row.source for row in rows if row.platform.lower() != OWN))
        return [f"prices{since} are {prices.told}: {sources}", *ahead[:MAX_LISTED]]
    return (invented if prices.is_example else []) + (old + ahead)[:MAX_LISTED]


def _next(request: CostRequest, measured: Measured | None) -> NextCall:
    if measured is None:
        why = "a probe measures real steps in a minute; the same estimate then says measured hours"
        return NextCall(tool="start_training", arguments={"project": request.project, "kind": "probe"}, why=why)
    return NextCall(tool="project_status", arguments={"project": request.project}, why="what the project needs next")


def _no_hours(request: CostRequest, not_priced: list[str]) -> ConfigurationError:
    return ConfigurationError(
        f"Nothing can be priced: {'; '.join(not_priced[:MAX_LISTED]) or 'no row fits'}.",
        remedy=f"start_training(project={request.project!r}, kind='probe') measures the steps; or fill in the rows of "
        "the accelerators that you mean.",
    )


# The owner's limits beside an estimate: what is left, and the request that would raise it.

OF_WORKSPACE = "workspace_limits."


def owner_limit(workspace: Workspace, project: str, cheapest: PlatformCost) -> tuple[str, NextCall | None]:
    """Return what is left of money and GPU hours in words, and the request to the owner where it is too little.

    Both are counted as a run counts them: GPU hours are hours times devices, money is those at the price that counts.
    """
    with workspace.session() as session:
        table = limit_table(session, workspace, get_project(session, project), look=True)
    most = cheapest.gpu_hours[1] if cheapest.gpu_hours is not None else 0.0
    price, price_from = counted_price(
        workspace.path, workspace.settings, cheapest.platform, cheapest.accelerator, spot=bool(cheapest.spot)
    )
    needed = {"gpu_hours": most} | ({"money": most * price} if price else {})
    said = [f"money counts at {price:g} an hour ({price_from})"] if price else [_NOT_COUNTED]
    wanted: dict[str, int] = {}
    for name, amount in needed.items():
        line = min(table[name], key=lambda each: each.left)
        left = f"{max(line.left, 0.0):.4g} left of {line.allowed:.4g} ({line.name})"
        is_enough = amount <= line.left
        said.append(left if is_enough else f"{left}: too little for {amount:.4g}, and a run stops there")
        if not is_enough and not line.name.startswith(OF_WORKSPACE):
            wanted[line.name] = math.ceil(line.allowed - line.left + amount)
    return "; ".join(said), _request(project, wanted) if wanted else None


_NOT_COUNTED = "money is not counted (price_per_gpu_hour is 0 in settings.yaml)"


def _request(project: str, limits: dict[str, int]) -> NextCall:
    arguments: dict[str, Any] = {"project": project, "ask_owner": {"limits": limits}}
    return NextCall(tool="configure", arguments=arguments, why="the cheapest platform would go beyond the limit")


# Files of prices: the workspace's, one of the user's below the code root, and the template that is to be filled in.

FOLDER = SKILL.parent / "cost-calculator"
TEMPLATE, EXAMPLE = FOLDER / "prices.template.yaml", FOLDER / "prices.example.yaml"
DOCUMENT = "planning/README.md"


def write_price_file(path: Path, *, example: bool = False) -> Path:
    """Write the template, or the example with invented figures, into a new file, and return its path.

    Raises:
        ConflictError: there is a file already, which is never overwritten.
    """
    if path.exists():
        raise ConflictError(
            f"There is a file {path.name} already, and it is not overwritten.",
            remedy=f"Fill in that one, or name another: {TO_WRITE} FILE.",
        )
    text = (EXAMPLE if example else TEMPLATE).read_text(encoding="utf-8")
    return write_generated(path.resolve().parent, {path.name: text})[0]


def prices_of(workspace: Workspace, code_root: Path, named: str | None) -> PriceList:
    """Return the prices of the file that a call names, else the workspace's, else those that come with the package.

    Args:
        code_root: of the project; a named file lies below it, or is the workspace's own by its name.

    Raises:
        NotFoundError: the file that is named is not there; the remedy is the command that writes the template.
        ConfigurationError: it lies elsewhere, does not fit, or has no price filled in.
    """
    if named is None:
        return _filled_in(prices_in_force(workspace))
    path = workspace.path / OWNERS
    if named != OWNERS:
        path = confine(named, code_root, key="prices")
    elif not path.is_file():
        path = code_root / OWNERS
    if not path.is_file():
        command = f"{TO_WRITE} --workspace {workspace.path}"
        raise NotFoundError(
            f"There is no file of prices {named!r}, neither in the workspace's folder nor below the code root.",
            remedy=f"Run `{command}`, fill in the rows that matter from the providers' pages named there, and call "
            "again; or leave prices out: dated ones come along.",
            document=DOCUMENT,
        )
    return _filled_in(load_prices(path))


def _filled_in(prices: PriceList) -> PriceList:
    if not prices.rows:
        raise _all_empty(prices)
    return prices


def _all_empty(prices: PriceList) -> ConfigurationError:
    pages = ", ".join(dict.fromkeys(row.source for row in prices.empty))
    return ConfigurationError(
        f"{prices.path.name} has {len(prices.empty)} rows, and a price in none of them.",
        remedy=f"Fill in price_per_hour and date of the rows that matter ({pages or 'each needs its source'}), "
        "and call again.",
        document=DOCUMENT,
    )
