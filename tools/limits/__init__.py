"""Limits: what projects may use, what they have used, and what runs under way have reserved (GATE-4)."""

from trainwright.tools.limits.amounts import Amounts, Reservation, effective_limits, limits_under
from trainwright.tools.limits.lines import limit_lines
from trainwright.tools.limits.reservation import limit_table, require_room, reserve
from trainwright.tools.limits.trials import count_trials, require_trials
from trainwright.tools.limits.usage import Usage, project_usage, sealed_use, use_differences, workspace_usage

__all__ = [
    "Amounts",
    "Reservation",
    "Usage",
    "count_trials",
    "effective_limits",
    "limit_lines",
    "limit_table",
    "limits_under",
    "project_usage",
    "require_room",
    "require_trials",
    "reserve",
    "sealed_use",
    "use_differences",
    "workspace_usage",
]
