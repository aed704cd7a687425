"""The kit for machines without a network: what it takes along, and `unpack.py` on a small one made here."""

from __future__ import annotations

import importlib
import io
import json
import lzma
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="kits are for Linux")]

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "gpu_kit"
UNPACK = FOLDER / "unpack.py"
MODULES = ("resolving", "fetching", "slimming", "packing")
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
FACTS: dict[str, Any] = {
    "python": HERE,
    "machine": platform.machine(),
    "glibc": [2, 5],
    "packages": [],
    "expects": {"torch": {"trainwright": ">=2"}},
}


@pytest.fixture(scope="module")
def kit() -> Iterator[dict[str, ModuleType]]:
    """The modules that make a kit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield {name: importlib.import_module(name) for name in MODULES}
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of one package, and of one that the interpreter has too, in another version."""
    folder = tmp_path / "site"
    for name, number, text in (("made-up", "1.0", "ANSWER = 42\n"), ("numpy", "99.0", "")):
        module, info = name.replace("-", "_"), folder / f"{name.replace('-', '_')}-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        if text:
            (folder / module).mkdir()
            (folder / module / "__init__.py").write_text(text)
    return folder


@pytest.fixture
def packed(kit: dict[str, ModuleType], site: Path, tmp_path: Path) -> Callable[..., Path]:
    """Packs the folder with other facts than usual."""

    def pack(**facts: Any) -> Path:
        archive = tmp_path / "kit.tar.xz"
        kit["packing"].pack(site, FACTS | facts, archive)
        return archive

    return pack


def unpacked(
    archive: Path, into: Path, *command: str, flags: tuple[str, ...] = ("-P",)
) -> subprocess.CompletedProcess[str]:
    """Run unpack.py with this interpreter, which holds torch."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTHON"))}
    flags = tuple(flag for flag in flags if flag != "-P" or sys.version_info >= (3, 11))
    words = [
        sys.executable,
        *flags,
        str(UNPACK),
        str(archive),
        "--into",
        str(into),
        *(("--", *command) if command else ()),
    ]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=250)


def rewritten(archive: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    """Pack the members anew, each changed, under the old manifest."""
    other = archive.with_name("changed.tar.xz")
    with (
        tarfile.open(archive, "r:xz") as old,
        lzma.open(other, "wb") as out,
        tarfile.open(fileobj=out, mode="w") as new,
    ):
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            name, content = change(member.name, file.read())
            info = tarfile.TarInfo(name)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))
    return other


def test_the_environment_has_the_kit_then_the_interpreters_packages_then_the_checkout(
    packed: Callable[..., Path], tmp_path: Path
) -> None:
    code = (
        "import json, made_up, sys, trainwright\n"
        "from importlib.metadata import version\n"
        "from importlib.util import find_spec\n"
        "print(json.dumps([made_up.ANSWER, version('numpy'), version('trainwright'), find_spec('torch').origin,"
        " trainwright.__file__, sys.prefix]))"
    )
    environment = tmp_path / "an environment"
    done = unpacked(packed(), environment, "python", "-c", code)
    assert done.returncode == 0, done.stderr
    answer, numpy, number, torch, ours, prefix = json.loads(done.stdout.splitlines()[-1])
    here = importlib.util.find_spec("torch")
    assert here is not None
    assert (answer, numpy) == (42, "99.0")
    assert (torch, Path(ours), Path(prefix)) == (here.origin, ROOT / "src/trainwright/__init__.py", environment)
    command = subprocess.run(
        [str(environment / "bin" / "trainwright"), "--version"], capture_output=True, text=True, check=False
    )
    assert (command.returncode, number in command.stdout) == (0, True), command.stderr


def test_a_second_time_finds_the_environment_and_another_kit_replaces_it(
    packed: Callable[..., Path], site: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "environment"
    look = ("python", "-c", "import made_up; print(made_up.ANSWER)")
    assert unpacked(packed(), environment, *look).stdout == "42\n"
    (environment / "kept").touch()
    assert unpacked(packed(), environment, *look).stdout == "42\n"
    assert (environment / "kept").exists()
    (site / "made_up" / "__init__.py").write_text("ANSWER = 43\n")
    assert unpacked(packed(), environment, *look).stdout == "43\n"
    assert not (environment / "kept").exists()


def test_a_command_ends_with_its_own_status_in_the_checkout(packed: Callable[..., Path], tmp_path: Path) -> None:
    done = unpacked(packed(), tmp_path / "environment", "sh", "-c", "pwd; exit 7")
    assert (done.returncode, done.stdout) == (7, f"{ROOT}\n")
    gone = unpacked(packed(), tmp_path / "environment", "no-such-program")
    assert gone.returncode == 1
    assert "no-such-program cannot be run" in gone.stderr


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no archive"])
def test_a_damaged_kit_is_refused_and_leaves_an_earlier_environment_alone(
    packed: Callable[..., Path], tmp_path: Path, damage: str
) -> None:
    environment, archive = tmp_path / "environment", packed()
    assert unpacked(archive, environment).returncode == 0
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0x10
    changed = {"cut": content[: len(content) // 2], "flipped": content, "empty": b"", "no archive": b"text\n" * 99}
    archive.write_bytes(changed[damage])
    done = unpacked(archive, environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is damaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert (environment / "bin" / "trainwright").exists()


def test_a_file_that_is_not_the_manifests_is_refused(packed: Callable[..., Path], tmp_path: Path) -> None:
    def edit(name: str, content: bytes) -> tuple[str, bytes]:
        return name, content.replace(b"ANSWER = 42", b"ANSWER = 66")

    done = unpacked(rewritten(packed(), edit), tmp_path / "environment")
    assert done.returncode == 2
    assert "made_up/__init__.py in the kit has another digest" in done.stderr
    assert not (tmp_path / "environment").exists()


@pytest.mark.parametrize("name", ["../outside.py", "/tmp/outside-of-a-kit.py", "made_up/../../outside.py"])
@pytest.mark.parametrize("is_listed", [False, True])
def test_a_file_that_leads_out_of_the_folder_is_refused_listed_or_not(
    packed: Callable[..., Path], tmp_path: Path, name: str, is_listed: bool
) -> None:
    def lead_out(member: str, content: bytes) -> tuple[str, bytes]:
        if member == "kit.json" and is_listed:
            return member, content.replace(b'"made_up/__init__.py"', json.dumps(name).encode())
        return (name if member == "made_up/__init__.py" else member), content

    done = unpacked(rewritten(packed(), lead_out), tmp_path / "deep" / "environment")
    assert done.returncode == 2
    assert f"the kit holds {name!r}" in done.stderr
    assert not list(tmp_path.rglob("outside.py"))
    assert not Path("/tmp/outside-of-a-kit.py").exists()


def test_a_link_is_refused(packed: Callable[..., Path], tmp_path: Path) -> None:
    archive, other = packed(), tmp_path / "link.tar.xz"
    with tarfile.open(archive, "r:xz") as old, tarfile.open(other, "w:xz") as new:
        for member in old:
            link = tarfile.TarInfo(member.name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            new.addfile(member, old.extractfile(member)) if member.name == "kit.json" else new.addfile(link)
    done = unpacked(other, tmp_path / "environment")
    assert done.returncode == 2
    assert "which its manifest does not" in done.stderr


def test_a_kit_that_ends_early_is_refused(packed: Callable[..., Path], tmp_path: Path) -> None:
    archive, other = packed(), tmp_path / "short.tar.xz"
    with tarfile.open(archive, "r:xz") as old, tarfile.open(other, "w:xz") as new:
        first = old.next()
        assert first is not None
        new.addfile(first, old.extractfile(first))
    done = unpacked(other, tmp_path / "environment")
    assert done.returncode == 2
    assert "3 files in all" in done.stderr


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"python": "3.9"}, "the kit is for CPython 3.9"),
        ({"machine": "riscv64"}, "the kit is for linux riscv64"),
        ({"glibc": [99, 1]}, "the kit needs glibc 99.1 or newer"),
    ],
)
def test_another_python_or_machine_is_refused_by_name(
    packed: Callable[..., Path], tmp_path: Path, facts: dict[str, Any], words: str
) -> None:
    done = unpacked(packed(**facts), tmp_path / "environment")
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "environment").exists()


def test_a_python_without_torch_is_refused(packed: Callable[..., Path], tmp_path: Path) -> None:
    done = unpacked(packed(), tmp_path / "environment", flags=("-S",))
    assert done.returncode == 2
    assert "has no torch" in done.stderr


def test_a_folder_with_something_else_in_it_is_refused(packed: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    done = unpacked(packed(), tmp_path / "work")
    assert done.returncode == 2
    assert "is no environment of a kit" in done.stderr
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"


def test_what_the_kit_counts_on_and_misses_is_named(packed: Callable[..., Path], tmp_path: Path) -> None:
    expects = {"torch": {"trainwright": ">=99"}, "no-such-package": {"made-up": ""}, "pytest": {"trainwright": ">=7"}}
    done = unpacked(packed(expects=expects), tmp_path / "environment")
    assert done.returncode == 0
    first, second = done.stderr.splitlines()
    assert "no-such-package is not here, and made-up needs it" in first
    assert "trainwright wants >=99" in second


def test_what_this_python_has_is_listed_as_the_maker_reads_it(kit: dict[str, ModuleType], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(UNPACK), "--list"], capture_output=True, text=True, check=True)
    (tmp_path / "has.txt").write_text(done.stdout)
    target = kit["resolving"].read_target(HERE, tmp_path / "has.txt")
    assert target.has["numpy"] == version("numpy")
    assert target.has["torch"]


def test_the_same_files_make_the_same_archive(
    kit: dict[str, ModuleType], site: Path, packed: Callable[..., Path], tmp_path: Path
) -> None:
    first = packed().read_bytes()
    for path in site.rglob("*"):
        os.utime(path, (1, 1))
    assert packed().read_bytes() == first
    (site / "made_up" / "__init__.py").write_text("ANSWER = 43\n")
    assert packed().read_bytes() != first


def test_the_list_of_the_lanes_machine_names_torch_and_its_cuda(kit: dict[str, ModuleType]) -> None:
    target = kit["resolving"].read_target("3.12", FOLDER / "ecosystem-3.12.txt")
    assert (target.has["torch"], target.cuda) == ("2.11.0", "130")
    assert target.has["pandas"] is None
    assert "polars" not in target.has


def test_a_list_without_torch_and_a_missing_list_are_refused(kit: dict[str, ModuleType], tmp_path: Path) -> None:
    resolving = kit["resolving"]
    (tmp_path / "has.txt").write_text("numpy==2.2.0\n")
    with pytest.raises(resolving.KitError, match="names no torch"):
        resolving.read_target("3.12", tmp_path / "has.txt")
    with pytest.raises(resolving.KitError, match=r"unpack.py --list > has.txt.*PYTHON_VERSION=3.13"):
        resolving.read_target("3.13", tmp_path / "none.txt")


def test_only_packages_of_the_lane_may_be_left_out(kit: dict[str, ModuleType]) -> None:
    resolving = kit["resolving"]
    lines = resolving.requirements(beside=["einops"], without=["trl", "bitsandbytes"])
    names = {resolving.Requirement(line).name for line in lines}
    assert names >= {"einops", "torch", "polars", "pytest", "datasets"}
    assert not names & {"trl", "bitsandbytes"}
    with pytest.raises(resolving.KitError, match="WITHOUT=torch"):
        resolving.requirements(beside=[], without=["torch"])


def test_what_nothing_reads_at_run_time_is_left_out(kit: dict[str, ModuleType], site: Path) -> None:
    left = ["made_up/types.pyi", "made_up/tests/test_it.py", "made_up/fast.c", "bin/made-up"]
    other = [f"bitsandbytes/libbitsandbytes_{device}.so" for device in ("cuda118", "cuda132", "rocm64", "xpu2026")]
    kept = [f"bitsandbytes/libbitsandbytes_{device}.so" for device in ("cpu", "cuda130")]
    kept += ["made_up/__init__.py", "made_up-1.0.dist-info/licenses/docs/LICENSE.h"]
    for name in (*left, *other, *kept):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).touch()
    kit["slimming"].slim(site, cuda="130")
    assert not [name for name in (*left, *other) if (site / name).exists()]
    assert not [name for name in kept if not (site / name).exists()]
