"""The owner's limits beside an estimate: what is left, and the request that would raise it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.answers import NextCall
from trainwright.tools.limits import limit_table
from trainwright.tools.limits.counted_price import counted_price
from trainwright.tools.workspace.records import get_project

if TYPE_CHECKING:
    from trainwright.tools.costs.answer import PlatformCost
    from trainwright.tools.workspace import Workspace

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
