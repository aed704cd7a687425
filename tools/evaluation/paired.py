"""Paired tests of two runs: their exported programs on the same fixed rows, row by row.

Classes by McNemar's test (exact: binomial), losses by the paired t-test, other metrics by the interval of their
difference over resampled rows. The certified predictions count: nothing that a training process reported is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from trainwright.tools.evaluation.evaluate import compared_with, order_of, ordered
from trainwright.tools.evaluation.process import libraries_of, run_clean_room
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.evaluation.statistics import statistics_of
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunState
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Data

MAX_PAIRS = 4
TIMEOUT_SECONDS = 20.0
"""Of one pair: an answer waits for it."""


def paired_tests(workspace: Workspace, project: str, run_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the tests of the first run with each other one; of a pair that cannot be tested, why (`not_tested`).

    Empty where the first run, or all others, exported no program.
    """
    with workspace.snapshot() as session:
        facts = ProjectFacts(session, project)
    return list(_pairs(workspace, facts, project, list(dict.fromkeys(run_ids))))


def _pairs(workspace: Workspace, facts: ProjectFacts, project: str, run_ids: list[str]) -> Iterator[dict[str, Any]]:
    first, *others = [(run_id, _exported(workspace, facts, project, run_id)) for run_id in run_ids]
    rows = compared_with(workspace, facts, project, first[0]).rows
    evaluation = facts.evaluations.get(first[0])
    if first[1] is None or rows is None or evaluation is None or evaluation.problem:
        return
    for run_id, other in [pair for pair in others if pair[1] is not None][:MAX_PAIRS]:
        assert other is not None  # noqa: S101 - chosen so
        head = {"first": first[0], "second": run_id}
        try:
            yield head | _tested(first[1], other, rows)
        except TrainwrightError as error:
            yield head | {"not_tested": error.message}


def _exported(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Sealed | None:
    """Return a completed run with a program; None otherwise."""
    seal = facts.seals.get(run_id)
    if seal is None or seal.state != RunState.COMPLETED:
        return None
    run = Sealed(workspace.run_directory(project, run_id), seal.digests)
    return run if run.part(Program).path else None


def _tested(first: Sealed, second: Sealed, rows: Sealed) -> dict[str, Any]:
    prints = [run.directory.part(Data).fingerprint for run in (first, second)]
    if prints[0] is None or prints[0] != prints[1]:
        return {"not_tested": "their data differ: rows of one's validation split may be among the other's train rows"}
    programs = [run.part(Program) for run in (first, second)]
    order = order_of(first.directory.specification(), first, rows, programs[0])
    libraries = [name for program in programs for name in libraries_of(str(program.form))]
    order |= {"libraries": list(dict.fromkeys(libraries)), "splits": ["validation"], "slices": [], "groups": []}
    return dict(_answered(json.dumps(order | {"beside": ordered(second, programs[1])})))


@lru_cache(64)
def _answered(order: str) -> dict[str, Any]:
    """Return the tests that an order gives: it names programs and rows by their digests."""
    answer = run_clean_room(json.loads(order), timeout_seconds=TIMEOUT_SECONDS)
    found = answer.get("splits", {}).get("validation", {}).get("beside", {})
    problem = answer.get("problem") or found.get("problem")
    if problem or "paired" not in found:
        return {"not_tested": str(problem or "the model has several tasks")}
    return statistics_of(found["paired"])
