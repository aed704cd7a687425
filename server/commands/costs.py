"""`trainwright prices` and `trainwright cost`: the file of prices, and what a project costs by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.costs import CostAnswer, estimate_cost, read_cost_request, write_price_file
from trainwright.tools.workspace import Workspace


def write_prices(path: Path, *, example: bool) -> None:
    """Write the template, or the example with invented figures, and say what to do with it. Raises TrainwrightError."""
    terminal = Terminal()
    terminal.marked("ok", str(write_price_file(path, example=example)))
    if not example:
        terminal.line(
            "      Fill in price_per_hour and date from the pages that it names; an empty row counts for nothing."
        )


def show_cost(path: Path, *, as_json: bool, **given: Any) -> None:
    """Print what the project costs, the cheapest platform first. Raises TrainwrightError."""
    terminal, workspace = Terminal(), Workspace.open(path)
    try:
        answer = estimate_cost(workspace, read_cost_request(**given))
    finally:
        workspace.close()
    if as_json:
        terminal.line(json.dumps(answer.shown(full=True), indent=2))
    else:
        _show(terminal, answer)


def _show(terminal: Terminal, answer: CostAnswer) -> None:
    terminal.line(f"{answer.project}: {answer.basis}")
    for line in answer.platforms:
        hours = f"{line.training_hours[0]:g} to {line.training_hours[1]:g} h ({line.basis})"
        spot = " spot" if line.spot else ""
        terminal.line(
            f"  {line.platform} {line.accelerator}{spot}: {line.total[0]:g} to {line.total[1]:g} {answer.currency}; "
            f"{hours}; {line.price_per_gpu_hour:g} an hour on {line.price_date}"
        )
        if line.per_1000_requests is not None:
            terminal.line(f"      1,000 requests: {line.per_1000_requests[0]:g} to {line.per_1000_requests[1]:g}")
    for one in answer.spot or []:
        terminal.line(
            f"  spot {one.platform} {one.accelerator}: {one.saves_percent:g} % less; cheaper below "
            f"{one.break_even_interruptions_per_day:g} interruptions a day"
        )
    for warning in answer.warnings or []:
        terminal.marked("warn", warning)
    for left in [*(answer.not_priced or []), *answer.assumed, answer.restart or "", answer.owner_limit or ""]:
        if left:
            terminal.line(f"      {left}")
