"""Units of time in seconds."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
SECONDS = {
    "second": 1.0, "minute": MINUTE, "hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 30.4375 * DAY,
    "quarter": 91.3125 * DAY, "year": 365.25 * DAY,
}  # fmt: skip
"""Of the calendar's units their mean."""
