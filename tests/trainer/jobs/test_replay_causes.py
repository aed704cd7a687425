"""A replay on another machine: the machine is named before anything else, and the user's code is not blamed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.jobs.test_evidence_and_replay import UNSEEDED

from trainwright.trainer.evidence.environment import machine_facts
from trainwright.trainer.jobs.replay import causes_of, fact_differences
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Environment

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
    """A completed run, whose record of its machine is altered."""
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


def on_another_cpu(values: dict[str, Any]) -> None:
    values["hardware"]["cpu"] = values["fingerprint_basis"]["cpu"] = "Intel(R) Xeon(R) Platinum 8480+"


def without_a_machine(values: dict[str, Any]) -> None:
    for fact in ("cpu", "cpu_kind"):
        values["fingerprint_basis"].pop(fact, None)


def on_gpus(values: dict[str, Any], **changes: Any) -> None:
    for name, more in {**ON_A_GPU, **changes}.items():
        values[name] = {**values[name], **more}
    values["fingerprint_basis"] |= machine_facts(values["hardware"], values["torch"], device="cuda", gpus=1)


def compared(
    folder: Path, as_from: Any, source: Alter, replay: Alter = lambda values: None
) -> tuple[set[str], list[str]]:
    """Return the facts that differ, and the causes that are named of weights that differ from the first step on."""
    first, second = as_from(folder / "source", source), as_from(folder / "replay", replay)
    found = fact_differences(second, first)
    return set(found), causes_of(second.specification(), first, found, 1)


def test_another_processor_is_named_first_with_what_it_means_and_the_code_is_not_blamed(
    tmp_path: Path, as_from: Any
) -> None:
    facts, causes = compared(tmp_path, as_from, on_another_cpu)
    assert facts == {"environment.cpu"}
    assert causes[0].startswith("It is another kind of processor: CPU Intel(R) Xeon(R) Platinum 8480+ -> ")
    assert "on the same kind only" in causes[0]
    assert "within a tolerance" in causes[0]
    assert not [cause for cause in causes if BLAMED in cause]


@pytest.mark.parametrize(
    ("alter", "facts", "said"),
    [
        (lambda values: None, set(), BLAMED),
        (without_a_machine, set(), "(of the source's machine, CPU was not recorded)"),
    ],
    ids=["the same", "no machine"],
)
def test_what_a_run_did_not_record_is_no_difference(
    alter: Alter, facts: set[str], said: str, tmp_path: Path, as_from: Any
) -> None:
    found, causes = compared(tmp_path, as_from, alter)
    assert found == facts
    assert said in causes[0]
    assert ("not recorded" in causes[0]) is ("not recorded" in said)


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
        ({"hardware": {"gpus": [{"name": H100["name"]}], "driver": None, "tf32_override": None}}, set(), BLAMED),
        ({}, set(), BLAMED),
    ],
    ids=["gpu", "driver", "cuda", "cudnn", "tf32", "what is not known", "the same"],
)
def test_of_gpus_those_in_use_their_driver_and_their_libraries_are_compared(
    changed: dict[str, Any], facts: set[str], said: str, tmp_path: Path, as_from: Any
) -> None:
    found, causes = compared(tmp_path, as_from, on_gpus, lambda values: on_gpus(values, **changed))
    assert found == {f"environment.{fact}" for fact in facts}
    assert said in causes[0]
    assert any(BLAMED in cause for cause in causes) is (not facts)


def test_a_run_on_the_cpu_is_compared_by_no_gpu(tmp_path: Path, as_from: Any) -> None:
    facts, _ = compared(tmp_path, as_from, lambda values: values["hardware"].update(gpus=[H100], driver="580"))
    assert facts == set()


def test_a_run_records_the_processor_that_it_computes_on(unlike: RunDirectory) -> None:
    environment = unlike.part(Environment)
    assert environment.facts["cpu"] == environment.hardware["cpu"] == environment.fingerprint_basis["cpu"]
    assert not {"gpus", "driver", "cuda", "cudnn"} & environment.facts.keys()
