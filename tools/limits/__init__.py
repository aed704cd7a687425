"""Limits: what projects may use, what they have used, and what runs under way have reserved (GATE-4)."""

from trainwright.tools.limits.amounts import Amounts, Reservation, effective_limits, limits_under
from trainwright.tools.limits.reservation import (
    Line,
    count_trials,
    how_to_raise,
    is_cut_short,
    limit_lines,
    limit_table,
    require_room,
    require_trials,
    reserve,
)
from trainwright.tools.limits.usage import sealed_use, usages, use_differences
