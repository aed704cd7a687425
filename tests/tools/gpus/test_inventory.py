"""The GPUs that runs may use: what the driver shows, within CUDA_VISIBLE_DEVICES and the owner's list."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.function_text import body_of

from trainwright.server.commands.doctor import examine_gpus
from trainwright.tools.gpus import Device
from trainwright.tools.gpus.inventory import chosen, machine_gpus
from trainwright.tools.launchers.environment import Gpu
from trainwright.tools.workspace.settings import ListedGpu, Settings
from trainwright.trainer.base.errors import LimitReachedError

pytestmark = pytest.mark.requirement("TUNE-3")
WHOLE = [Device(Gpu(id=f"GPU-{letter * 8}", index=index, name="A100")) for index, letter in enumerate("abc")]
DIVIDED = Gpu(id="GPU-dddddddd", index=3)
PARTS = [Device(Gpu(id=f"MIG-{letter}", name="A100 MIG 1g.10gb"), parent=DIVIDED) for letter in "xy"]


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (None, ["GPU-aaaaaaaa", "GPU-bbbbbbbb", "GPU-cccccccc", "MIG-x", "MIG-y"]),
        ("2,0", ["GPU-cccccccc", "GPU-aaaaaaaa"]),
        ("GPU-bbb", ["GPU-bbbbbbbb"]),
        ("MIG-y", ["MIG-y"]),
        ("3", ["MIG-x"]),
        ("GPU-ddd,0", ["MIG-x", "GPU-aaaaaaaa"]),
        ("1,-1,0", ["GPU-bbbbbbbb"]),
        ("0,7,1", ["GPU-aaaaaaaa"]),
        ("", []),
    ],
)
def test_the_variable_is_read_as_cuda_reads_it(named: str | None, expected: list[str]) -> None:
    assert [device.gpu.id for device in chosen([*WHOLE, *PARTS], named, None)] == expected


def test_the_owner_leaves_some_of_what_is_shown() -> None:
    listed = [ListedGpu(id="GPU-cccccccc"), ListedGpu(id="0")]
    assert [device.gpu.id for device in chosen(WHOLE, None, listed)] == ["GPU-aaaaaaaa", "GPU-cccccccc"]
    assert [device.gpu.id for device in chosen(WHOLE, "1,2", listed)] == ["GPU-cccccccc"]
    assert chosen(WHOLE, None, []) == []
    assert chosen(WHOLE, "0", [ListedGpu(id="1")]) == [], "what the server is not shown is not the owner's to give"


def test_an_id_that_the_driver_does_not_know_is_refused_with_those_it_has() -> None:
    with pytest.raises(LimitReachedError, match=r"'GPU-d'.*GPU 0, A100 \(GPU-aaaaaaaa\)") as raised:
        chosen(WHOLE, None, [ListedGpu(id="GPU-d")])
    assert "settings.yaml" in raised.value.remedy
    assert not raised.value.details["waits"]


def test_without_a_driver_the_owners_list_is_taken_as_it_stands(tmp_path: Path) -> None:
    [device] = chosen([], None, [ListedGpu(id="0", name="MI300X", memory_bytes=192 * 1024**3)])
    assert str(device.gpu) == "GPU, MI300X (0)"
    assert Settings(gpus=[]).digest == Settings().digest, "which GPUs there are decides no gate"


def test_the_doctor_names_the_gpus_for_runs(tmp_path: Path) -> None:
    assert examine_gpus(tmp_path) == [] or machine_gpus()
    (tmp_path / "settings.yaml").write_text("gpus: []\n")
    assert examine_gpus(tmp_path) == []
    if not machine_gpus():
        (tmp_path / "settings.yaml").write_text("gpus: [{id: GPU-a, name: A100}, {id: GPU-b, name: A100}]\n")
        [finding] = examine_gpus(tmp_path)
        assert finding.found == "2 for runs, one on each: GPU, A100 (GPU-a); GPU, A100 (GPU-b)"


def look_for_gpus() -> None:
    import sys

    from trainwright.tools.gpus.inventory import machine_gpus

    machine_gpus()
    print(*sys.modules)


def test_looking_for_gpus_loads_no_torch() -> None:
    command = [sys.executable, "-P", "-c", body_of(look_for_gpus)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "torch" not in done.stdout.split()
