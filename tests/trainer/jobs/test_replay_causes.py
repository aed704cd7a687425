"""A replay on another machine: the machine is named before anything else, and the user's code is not blamed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.jobs.test_evidence_and_replay import UNSEEDED

from trainwright.trainer.jobs.replay import fact_differences
from trainwright.trainer.jobs.replay_causes import causes_of
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.evidence import Environment
from trainwright.trainer.run.results import Comparison

pytestmark = [pytest.mark.slow, pytest.mark.requirement("REPRO-5")]
BLAMED = "the user's code draws on something that is not seeded"
H100 = {"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 85 * 10**9, "compute_capability": "9.0"}
A100 = {"name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 42 * 10**9, "compute_capability": "8.0"}
ON_A_GPU = {
    "torch": {"cuda": "13.0", "cudnn": 91000},
    "hardware": {"gpus": [H100, A100], "driver": "580.65.06", "tf32_override": "not set"},
    "fingerprint_basis": {"device": "cuda"},
}
Alter = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def unlike(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any, digits: dict[str, Any]) -> RunDirectory:
    """A completed run of code that ends otherwise each time."""
    root = tmp_path_factory.mktemp("unlike")
    (root / "unseeded.py").write_text(UNSEEDED)
    values = {**digits, "model": {"use": "unseeded:Net"}, "training": {"epochs": 1}}
    run: RunDirectory = make_run(root / "source", values)
    assert work(run) == 0, run.log.read_text()
    return run


@pytest.fixture
def as_from(unlike: RunDirectory) -> Callable[[Path, Alter], RunDirectory]:
    """`as_from(folder, alter)` is a copy of that run whose record of its environment was altered."""

    def copied(folder: Path, alter: Alter) -> RunDirectory:
        shutil.copytree(unlike.path, folder)
        record = folder / "artifacts" / "environment.json"
        values = json.loads(record.read_text())
        alter(values)
        record.write_text(json.dumps(values))
        return RunDirectory(folder)

    return copied


@pytest.fixture
def replayed(unlike: RunDirectory, make_run: Any, work: Any) -> Callable[[RunDirectory], Comparison]:
    """`replayed(source)` replays it on this machine, and returns the comparison."""

    def compare(source: RunDirectory) -> Comparison:
        values = source.specification().config.model_dump(mode="json", exclude_defaults=True)
        root = str(unlike.path.parent)
        replay = make_run(
            source.path.parent / "replay", values, kind=RunKind.REPLAY, source_run=str(source.path), code_root=root
        )
        assert work(replay) == 0, replay.log.read_text()
        found: Comparison = replay.part(Comparison)
        assert found.identical is False
        return found

    return compare


def on_another_cpu(values: dict[str, Any]) -> None:
    values["hardware"]["cpu"] = values["fingerprint_basis"]["cpu"] = "Intel(R) Xeon(R) Platinum 8480+"


def by_an_earlier_version(values: dict[str, Any]) -> None:
    for fact in ("cpu", "cpu_kind"):
        values["fingerprint_basis"].pop(fact, None)
    values["hardware"].pop("cpu_kind", None)


def without_a_machine(values: dict[str, Any]) -> None:
    by_an_earlier_version(values)
    values.pop("hardware")


def on_gpus(values: dict[str, Any], **changes: Any) -> None:
    for name, more in {**ON_A_GPU, **changes}.items():
        values[name] = {**values[name], **more}


def test_another_processor_is_named_first_with_what_it_means_and_the_code_is_not_blamed(
    tmp_path: Path, as_from: Any, replayed: Any
) -> None:
    found = replayed(as_from(tmp_path / "source", on_another_cpu))
    first = found.causes[0]
    assert first.startswith("It is another kind of processor: CPU Intel(R) Xeon(R) Platinum 8480+ -> ")
    assert "on the same kind only" in first
    assert "within a tolerance" in first
    assert not [cause for cause in found.causes if BLAMED in cause]
    assert set(found.fingerprint_differences) == {"environment.cpu"}


@pytest.mark.long
def test_on_the_same_machine_the_code_is_blamed_for_the_same_difference(
    tmp_path: Path, as_from: Any, replayed: Any
) -> None:
    found = replayed(as_from(tmp_path / "source", lambda values: None))
    assert found.fingerprint_differences == {}
    [cause] = found.causes
    assert BLAMED in cause
    assert "not recorded" not in cause


@pytest.mark.long
def test_what_an_earlier_version_did_not_record_is_no_difference_and_what_it_did_is_compared(
    tmp_path: Path, as_from: Any, replayed: Any
) -> None:
    old = as_from(tmp_path / "old" / "source", by_an_earlier_version)
    found = replayed(old)
    assert found.fingerprint_differences == {}
    assert "not recorded" not in found.causes[0], "its CPU stands among its hardware"
    elsewhere = as_from(
        tmp_path / "elsewhere" / "source", lambda values: (on_another_cpu(values), by_an_earlier_version(values))
    )
    assert set(replayed(elsewhere).fingerprint_differences) == {"environment.cpu"}


@pytest.mark.long
def test_where_the_source_names_no_machine_the_blame_says_so(tmp_path: Path, as_from: Any, replayed: Any) -> None:
    found = replayed(as_from(tmp_path / "source", without_a_machine))
    assert found.fingerprint_differences == {}
    assert "(of the source's machine, CPU was not recorded)" in found.causes[0]


@pytest.mark.parametrize(
    ("changed", "facts", "said"),
    [
        (
            {"hardware": {"gpus": [A100, H100], "driver": "580.65.06", "tf32_override": "not set"}},
            {"gpus", "compute_capability"},
            "GPU NVIDIA H100 80GB HBM3 -> NVIDIA A100-SXM4-40GB, compute capability 9.0 -> 8.0",
        ),
        (
            {"hardware": {"gpus": [H100], "driver": "550.54.15", "tf32_override": "not set"}},
            {"driver"},
            "The GPU's driver differs, which compiles some kernels itself: 580.65.06 -> 550.54.15.",
        ),
        ({"torch": {"cuda": "12.6", "cudnn": 91000}}, {"cuda"}, "The CUDA version differs: 13.0 -> 12.6."),
        ({"torch": {"cuda": "13.0", "cudnn": 91300}}, {"cudnn"}, "The cuDNN version differs: 91000 -> 91300."),
        (
            {"hardware": {"gpus": [H100], "driver": "580.65.06", "tf32_override": "1"}},
            {"tf32_override"},
            "NVIDIA_TF32_OVERRIDE differs, which rounds fp32 products to TF32 or forbids that: not set -> 1.",
        ),
        ({"hardware": {"gpus": [{"name": H100["name"]}]}}, set(), BLAMED),
        ({}, set(), BLAMED),
    ],
    ids=["gpu", "driver", "cuda", "cudnn", "tf32", "an earlier version", "the same"],
)
def test_of_gpus_those_in_use_their_driver_and_their_libraries_are_compared(
    changed: dict[str, Any], facts: set[str], said: str, tmp_path: Path, as_from: Any
) -> None:
    source = as_from(tmp_path / "source", on_gpus)
    replay = as_from(tmp_path / "replay", lambda values: on_gpus(values, **changed))
    found = fact_differences(replay, source)
    assert set(found) == {f"environment.{fact}" for fact in facts}
    causes = causes_of(replay.specification(), source, found, 1)
    assert said in causes[0]
    assert any(BLAMED in cause for cause in causes) is (not facts)


def test_a_run_on_the_cpu_is_compared_by_no_gpu(tmp_path: Path, as_from: Any) -> None:
    source = as_from(tmp_path / "source", lambda values: values["hardware"].update(gpus=[H100], driver="580"))
    replay = as_from(tmp_path / "replay", lambda values: None)
    assert fact_differences(replay, source) == {}


def test_a_run_records_the_processor_that_it_computes_on(unlike: RunDirectory) -> None:
    environment = unlike.part(Environment)
    assert environment.facts["cpu"] == environment.hardware["cpu"] == environment.fingerprint_basis["cpu"]
    assert not {"gpus", "driver", "cuda", "cudnn"} & environment.facts.keys()
