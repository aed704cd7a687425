"""Random calls never lead past a gate: a few sequences of what `make model-test` makes 10,000 of."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.warm import import_for_worker

from trainwright.tools.gates import permits, staleness
from trainwright.tools.gates.phases import Phase
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def playing() -> Iterator[Any]:
    """benchmarks/call_sequences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "call_sequences"))
        yield importlib.import_module("playing")


@pytest.fixture(scope="module")
def stages(playing: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import torch

    torch.set_num_threads(1)  # a pool of threads would not survive the forks of the workers
    import_for_worker()  # once, and not in every fork
    with blank_pictures(), playing.prepared(tmp_path_factory.mktemp("sequences")) as stages:
        yield stages


@pytest.mark.requirement("PHASE-1", "PHASE-7", "PHASE-8", "GATE-3", "GATE-4")
def test_random_sequences_of_calls_agree_with_the_model_of_the_phases(playing: Any, stages: Any) -> None:
    counts = playing.play(stages, 5, steps=8, seed=0)
    assert counts["sequences"] >= 5
    assert counts["steps"] > 15


@pytest.fixture
def sequence(playing: Any, stages: Any) -> Iterator[Any]:
    """A sequence that has just begun, at the optimization phase."""
    playing.Calls.stages, found = stages, playing.Calls()
    found.world, found.verified_every = stages.at("optimization"), 1
    yield found
    found.teardown()


@pytest.mark.requirement("GATE-3", "PHASE-8")
def test_a_gate_decided_while_a_later_phases_run_is_at_work_is_derived_again(stages: Any, sequence: Any) -> None:
    """Once in some 700 sequences: `verify` asked what the baseline had measured by then, of a decision on planning."""
    sequence.world = stages.at("baseline")
    sequence.start(0, "baseline")
    world = sequence.here
    manifest = world.project / "reproducibility_manifest.md"
    manifest.write_bytes(manifest.read_bytes() + b"edited")
    world.model.damaged.add(manifest.name)
    sequence.pass_gate(1, "planning")
    sequence.everything_agrees()


@pytest.mark.long
@pytest.mark.requirement("PHASE-7")
def test_the_model_sees_a_run_that_starts_without_its_gate(sequence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that could not fail would prove nothing."""
    monkeypatch.setattr(permits, "PERMITTED", dict.fromkeys(Phase, frozenset(RunKind)))
    with pytest.raises(AssertionError, match="went through and should have met GateRefusedError"):
        sequence.start(0, "final")


@pytest.mark.long
@pytest.mark.requirement("PHASE-8")
def test_the_model_sees_a_gate_that_does_not_turn_stale(sequence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sequence.everything_agrees()
    monkeypatch.setattr(staleness, "configuration_changes", lambda *_: [])
    sequence.configure(0, 0.0005, begins=False)
    with pytest.raises(AssertionError, match="the model in planning"):
        sequence.everything_agrees()
