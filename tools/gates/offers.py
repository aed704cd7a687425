"""Ways to end below the goal that an answer offers: the agent's conclusion, and what the owner may be asked for."""

from __future__ import annotations

from typing import Any

from trainwright.tools.gates.improvement import told_separated
from trainwright.tools.gates.records import Records


def exit_in_words(evidence: Records) -> str:
    """Return the calls that end optimization below the goal: the agent's, and the owner's."""
    conclusion = f"pass_gate(project={evidence.name!r}, phase='optimization', conclude=True)"
    if takes := what_it_takes(evidence):
        conclusion += f" ({takes.rstrip('. ')})"
    return f"{conclusion}, or the owner's: {owners_exit(evidence)}" if evidence.baseline else conclusion


def what_it_takes(evidence: Records) -> str:
    """Say that a conclusion takes the study's best, and why; empty where it takes the baseline's configuration."""
    separated = told_separated(evidence.improvement[0])
    return f"It takes the study's best: {separated}. " if separated else ""


def owners_exit(evidence: Records) -> str:
    """Return the call that asks the owner: to accept the best confirmed value, else the baseline's, or another goal.

    A confirmed best that is not the configuration yet is offered with the change that makes it so: what the owner
    accepts is held to the configuration's own baseline.
    """
    assert evidence.baseline is not None, "nothing is searched for before it"  # noqa: S101
    value = evidence.baseline.best_value(evidence.goal_metric)
    confirmed = confirmed_floor(evidence, value)
    if confirmed is not None and evidence.improvement[0].get("validated") is not True:
        changes = evidence.confirmation["best_parameters"]
        return (
            f"configure(project={evidence.name!r}, changes={changes!r}), and with that configuration "
            f"{_asking(evidence, confirmed)}"
        )
    return _asking(evidence, value if confirmed is None else confirmed)


def confirmed_floor(evidence: Records, value: float | None) -> float | None:
    """Return the worst value of the study's best configuration over its seeds; None where it is no better than a value.

    Args:
        evidence: of the project.
        value: the baseline's.
    """
    confirmation: dict[str, Any] = evidence.confirmation
    own = confirmation.get("best_value")
    found = [one for one in [*(confirmation.get("best") or []), own] if isinstance(one, int | float)]
    if not found or value is None or confirmation.get("best_runs") == confirmation.get("baseline_runs"):
        return None
    is_minimized = evidence.goal["direction"] == "minimize"
    worst = float((max if is_minimized else min)(found))
    return worst if (worst < value) is is_minimized and worst != value else None


def floor_of(evidence: Records, value: float) -> float:
    """Return the value in four digits, on the side that the value itself meets."""
    rounded = float(f"{value:.4g}")
    sign = 1.0 if evidence.goal["direction"] == "maximize" else -1.0
    step = 10.0 ** (int(f"{rounded:e}".split("e")[1]) - 3)
    return rounded if sign * value >= sign * rounded else float(f"{rounded - sign * step:.4g}")


def _asking(evidence: Records, value: float | None) -> str:
    accept = "{'accept': …}" if value is None else f"{{'accept': {floor_of(evidence, value)}}}"
    return f"configure(project={evidence.name!r}, ask_owner={accept} or {{'goal': {{'target': …}}}})"
