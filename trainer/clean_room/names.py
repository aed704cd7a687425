"""Parts of metrics' names, which whoever lists metrics takes from here. Free of numpy."""

WORST = "worst_"
"""Begin of a metric that is the worst output's."""
LEVELS = (5, 10, 25, 50, 75, 90, 95)
"""Percent of the targets that are to lie below a predicted quantile: pinball_90, coverage_error_90."""
