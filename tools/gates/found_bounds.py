"""Ends of a search's ranges, from what a probe measured: a pure function of its sealed record (TUNE-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.ledger import seal_differences
from trainwright.trainer.run.results import Probe

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

RANGE_TEST, BATCH_SIZE_FINDER = "range_test", "batch_size_finder"
AROUND = 10.0
"""A range of learning rates reaches so many times below and above the suggested one: to the smoothed loss's minimum."""
HALVINGS = 2
"""Batch sizes below the configured one that are searched too: what fits, fits in a smaller batch."""


def found_range(probe: Probe, source: str, type_: str, configured: int) -> tuple[dict[str, Any], str]:
    """Return the range that a probe's test gives, or an empty one and why there is none.

    Learning rates: from the tenth of the suggested one to the rate at the loss's minimum, ten times it, on a
    logarithmic scale (Smith 2017, "Cyclical Learning Rates for Training Neural Networks": above it the loss rises).
    Batch sizes: from a quarter of the configured one to the largest that fitted and gave more throughput.

    Args:
        type_: of the range: `float`, `int` or `categorical`.
        configured: the configuration's batch size.
    """
    if source == RANGE_TEST:
        peak = probe.learning_rate.suggested
        if peak is None:
            return {}, probe.learning_rate.why or "it measured no learning rates"
        low, high = (float(f"{end:.3g}") for end in (peak / AROUND, peak * AROUND))
        return {"type": "float", "low": low, "high": high, "log": True}, ""
    largest = probe.batch_size.suggested
    if largest is None:
        return {}, probe.batch_size.why or "it measured no batch sizes"
    fitted = [int(one["batch_size"]) for one in probe.batch_size.tried if "samples_per_second" in one]
    sizes = {configured >> times for times in range(HALVINGS + 1)} | {size for size in fitted if size <= largest}
    choices = sorted(size for size in sizes if size >= 1)
    if len(choices) < 2:
        return {}, f"only a batch size of {choices[0]} is left to search"
    if type_ == "int":
        return {"type": "int", "low": choices[0], "high": choices[-1], "log": True}, ""
    return {"type": "categorical", "choices": choices}, ""


def bound_differences(evidence: Evidence, search: dict[str, Any], bounds: dict[str, Any]) -> list[str]:
    """Return one sentence for every range that is not what its probe gives.

    Args:
        search: a study's recorded search.
        bounds: {key: {from, probe}} of its ledger entry.
    """
    found = []
    for key, bound in bounds.items():
        run, range_ = evidence.run(str(bound["probe"])), search["space"].get(key)
        seal = evidence.facts.seals.get(run.id) if run is not None else None
        if run is None or seal is None or range_ is None:
            found.append(f"the bounds of {key} are said to come from {bound['probe']}, which did not measure them")
            continue
        changed = seal_differences(run.directory, seal.digests, evidence.inspection, seal.problem)
        configured = run.directory.specification().config.loader.batch_size
        given, why = found_range(run.part(Probe), bound["from"], range_["type"], configured)
        if changed or why or any(range_.get(name) != value for name, value in given.items()):
            found.append(f"the bounds of {key} are not those that {run.id} gives{f': {changed[0]}' if changed else ''}")
    return found
