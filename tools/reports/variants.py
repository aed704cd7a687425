"""Lines of the model card on smaller variants of the program: size and figure beside the program's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.beside_rivals import word_of
from trainwright.tools.gates.bounds import is_smaller_better
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainwright.tools.ledger.events import RunEvaluated

WORDS = {BETTER: "it is worse", WORSE: "it is better", ALIKE: ALIKE}
"""Of a variant, by what the program is beside it."""


def variant_lines(evaluated: RunEvaluated | None, goal: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each variant; none where nothing was evaluated.

    Args:
        goal: {metric, direction}.
    """
    record = evaluated.splits.get("validation", {}) if evaluated is not None and not evaluated.problem else {}
    return [f"{file}: {_told(one, record, goal)}." for file, one in record.get("variants", {}).items()]


def _told(one: dict[str, Any], record: dict[str, Any], goal: Mapping[str, Any]) -> str:
    size = f"{one['share']:.2g} of the size ({one['bytes']:,} bytes)" if "share" in one else "not there"
    shared = [name for name in one.get("metrics", {}) if name in record["metrics"]]
    if not shared:
        return f"{size}; no figure: {str(one.get('problem', 'no metric is computed of it')).rstrip('.')}"
    metric = goal["metric"] if goal["metric"] in shared else shared[0]
    is_goals = metric == goal["metric"]
    is_minimized = goal["direction"] == "minimize" if is_goals else is_smaller_better(metric)
    ends = one["paired"]["intervals"].get(metric)
    between = f" (95 % interval of the difference {ends[0]:.3g} to {ends[1]:.3g})" if ends else ""
    singly = ", one row in a call, as its scales depend on the rows of a call" if one.get("batch") == 1 else ""
    return (
        f"{size}, {metric} {one['metrics'][metric]:.4g} against {record['metrics'][metric]:.4g} on the same "
        f"{one['rows']} validation rows{singly}: {WORDS[word_of(ends, is_minimized=is_minimized)]}{between}"
    )
