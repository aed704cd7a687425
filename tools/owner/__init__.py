"""Owner's consent: what was requested, what was granted, and by whom (GATE-4)."""

from trainwright.tools.owner.grant import (
    Grant,
    checked_limits,
    ending_grants,
    exemption_grant,
    limit_grants,
    limits_as_meant,
    meaning,
    root_grants,
)
from trainwright.tools.owner.grants import accepted_alerts, accepted_values
from trainwright.tools.owner.request import RequestView, ask, require_granted, view
from trainwright.tools.owner.requests import (
    Grantor,
    Request,
    decide,
    exempted_operations,
    granted,
    record_settings_grants,
    requests_of,
)
