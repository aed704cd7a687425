"""Owner's consent: what was requested, what was granted, and by whom (GATE-4)."""

from trainwright.tools.owner.approve import Grantor, decide
from trainwright.tools.owner.grant import (
    Wish,
    checked_wishes,
    ending_wishes,
    exemption_wish,
    limit_wishes,
    limits_as_meant,
    root_wishes,
)
from trainwright.tools.owner.grants import accepted_alerts, accepted_values, goal_under
from trainwright.tools.owner.meaning import meaning
from trainwright.tools.owner.request import RequestView, ask, require_granted, view
from trainwright.tools.owner.requests import Request, exempted_operations, find_request, granted, requests_of, taken_up

__all__ = [
    "Grantor",
    "Request",
    "RequestView",
    "Wish",
    "accepted_alerts",
    "accepted_values",
    "ask",
    "checked_wishes",
    "decide",
    "ending_wishes",
    "exempted_operations",
    "exemption_wish",
    "find_request",
    "goal_under",
    "granted",
    "limit_wishes",
    "limits_as_meant",
    "meaning",
    "requests_of",
    "require_granted",
    "root_wishes",
    "taken_up",
    "view",
]
