"""Almost equal samples in two splits: what chance explains, what the check says, and what the owner may exempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.checks.planning import data_fingerprinted
from trainwright.tools.gates.leakage import beyond_chance
from trainwright.tools.gates.phases import Phase
from trainwright.tools.owner.grant import Grant
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.leaks.finding import probability
from trainwright.trainer.run.evidence import AlikeSamples, Data
from trainwright.trainer.run.split_rows import SplitRows


def counted(alike: int, near: int, first: int = 800, second: int = 100) -> dict[str, Any]:
    return {
        "splits": ["train", "test"],
        "tolerance": 0.005,
        "alike": alike,
        "near": near,
        "first": first,
        "second": second,
        "examples": [[800, 0], [801, 1]],
    }


@pytest.mark.requirement("REPRO-4")
def test_the_probability_is_that_of_pairs_dealt_out_by_chance() -> None:
    """Against 1,000 draws: of 100 pairs in 1,000 samples, how often chance parts as many or more."""
    draw = np.random.default_rng(0)
    reached = []
    for _ in range(1000):
        held = np.zeros(1000, dtype=bool)
        held[draw.permutation(1000)[:200]] = True
        pairs = held[:200].reshape(100, 2).sum(1)
        alike, near = int((pairs == 1).sum()), 2 * int((pairs == 0).sum())
        reached.append(probability(alike, near, 800, 200))
    for limit in (0.5, 0.05, 0.01):  # draws without putting back vary a little less
        assert limit / 4 < np.mean(np.array(reached) < limit) < limit


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize(
    ("record", "told"),
    [
        (counted(100, 0), True),
        (counted(9, 0), True),
        (counted(5, 0), False),  # a few natural pairs that chance has parted
        (counted(90, 700), False),  # samples lie as close in training
        (counted(30, 60), True),
        (counted(300, 100, 800, 1000), False),  # beyond chance, yet not three times as frequent: another mixture
        (counted(30, 0, 120, 30), True),
    ],
)
def test_a_few_pairs_are_chance_and_many_are_copies(record: dict[str, Any], told: bool) -> None:
    assert bool(beyond_chance([AlikeSamples.model_validate(record)], 1e6, 3)) is told


IRIS = {"model": {"use": "mlp"}, "data": {"use": "iris"}}


def outcome(record: dict[str, Any], *grants: Grant, config: dict[str, Any] | None = None) -> Any:
    data = {"splits": {name: {"fingerprint": "x"} for name in ("train", "validation", "test")}, **record}
    evidence = SimpleNamespace(
        smoke=SimpleNamespace(data=Data.model_validate(data), split_rows=SplitRows()),
        config=parse_config(config or IRIS),
        call=lambda tool, why, **arguments: NextCall(tool=tool, why=why, arguments={"project": "p", **arguments}),
        grants=grants,
    )
    (line,) = [one for one in load_checklist(Phase.PLANNING).checks if one.id == "planning.data_fingerprinted"]
    return data_fingerprinted(evidence, line)


@pytest.mark.requirement("REPRO-4", "GATE-2")
def test_the_check_names_the_copies_the_rule_and_the_way_out() -> None:
    found = outcome({"disjoint": True, "shared_samples": 0, "alike_samples": [counted(100, 4)]})
    assert found.status == "failed"
    assert found.measured.endswith("; 100 samples of train almost equal one of test (and 4 another of train)")
    assert found.required == "one a split, no sample shared or copied with changes"
    assert "samples 800 and 0, 801 and 1" in found.next.why
    assert "configure(project='p', ask_owner={'exemption': 'alike_samples'})" in found.next.why
    assert found.next.arguments == {"project": "p", "kind": "smoke"}


@pytest.mark.requirement("REPRO-4", "GATE-2")
@pytest.mark.parametrize("record", [{"disjoint": False, "shared_samples": 2}, {"alike_samples": [counted(100, 4)]}])
def test_copies_in_the_data_sets_of_a_trainer_come_with_the_lines_that_leave_them_out(record: dict[str, Any]) -> None:
    config = {"trainer": {"use": "train.py:make"}, "metrics": []}
    why = outcome({"disjoint": True, **record}, config=config).next.why
    assert "in train.py, " in why
    assert "train_dataset.filter(lambda row: key(row) not in known)" in why
    assert "filter(" not in outcome({"disjoint": True, **record}).next.why


@pytest.mark.requirement("REPRO-4", "GATE-4")
def test_the_owner_may_exempt_samples_that_are_alike_and_not_those_that_are_equal() -> None:
    grant = Grant(kind="exemption", name="alike_samples")
    alike = {"disjoint": True, "alike_samples": [counted(100, 4)]}
    found = outcome(alike, grant)
    assert found.status == "passed_with_exemption"
    assert found.measured.endswith("exempted by the owner")
    assert outcome(alike, Grant(kind="exemption", name="put_")).status == "failed"
    assert outcome({"disjoint": False, "shared_samples": 2, "alike_samples": []}, grant).status == "failed"
    assert outcome({"disjoint": True, "alike_samples": []}, grant).status == "passed"


@pytest.mark.requirement("PHASE-8")
def test_records_of_before_the_rule_are_judged_as_they_were() -> None:
    assert outcome({"disjoint": True, "shared_samples": 0}).status == "passed"
