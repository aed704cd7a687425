"""What is installed is what stands in the tree, by every way of installing; and the platforms that it runs on.

Linux is tested; a Mac's CPU should do, so far as that can be shown on Linux; Windows is told where to go.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.function_text import body_of
from tests.house.sources import nodes_of, sources
from tests.only_linux import present

import trainwright
from trainwright import PLATFORMS
from trainwright.server import cli, entry
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import parse_config

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LINKED = ("server", "tools", "trainer", "skills", "agents", "prompts")
PACKAGED_SUFFIXES = {".py", ".md", ".j2", ".yaml", ".json", ".css", ".html", ".js", ".mjs", ".ts", ".tsx", ".sql"}


def _tracked_files() -> set[str]:
    """Return the files of the linked folders as git has them, or as they stand outside a repository."""
    git = subprocess.run(["git", "ls-files", "--", *LINKED], cwd=ROOT, capture_output=True, text=True, check=False)
    return set(git.stdout.split()) if git.returncode == 0 else set()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what git tracks, links kept, so that no build leaves anything in the working tree."""
    folder = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git repository, so there is no list of files to compare with")
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, folder / name
        if not source.is_symlink() and not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        else:
            target.write_bytes(source.read_bytes())
    return folder


@pytest.fixture(scope="module")
def distributions(tree, tmp_path_factory):
    """The sdist, and the wheel built from that sdist: the longest way."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-P", "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel_files(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        return {name for name in wheel.namelist() if not name.endswith("/")}


@pytest.mark.long
def test_the_wheel_holds_exactly_the_tracked_files(wheel_files):
    expected = {f"trainwright/{name}" for name in _tracked_files()}
    expected |= {"trainwright/__init__.py", "trainwright/py.typed"}
    packaged = {name for name in wheel_files if ".dist-info/" not in name}
    assert packaged == expected


def test_no_tracked_file_has_a_kind_that_packaging_would_drop():
    strange = [name for name in _tracked_files() if Path(name).suffix not in PACKAGED_SUFFIXES]
    assert not strange, "add the suffix to package-data in pyproject.toml and to this test"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["skills/*.md", "skills/*.yaml", "tools/reports/*.j2"])
def test_the_wheel_has_what_is_read_as_data(wheel_files, kind):
    folder, suffix = kind.rsplit("/", 1)[0], Path(kind).suffix
    assert any(name.startswith(f"trainwright/{folder}/") and name.endswith(suffix) for name in wheel_files)


@pytest.mark.long
def test_the_wheel_has_its_command_and_licence(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = wheel.namelist()
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert f"trainwright = {entry.__name__}:{entry.main.__name__}" in wheel.read(entry_points).decode()
        assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.long
def test_the_sdist_can_be_unpacked_without_links_out_of_its_folder(distributions):
    with tarfile.open(distributions[0]) as archive:
        members = archive.getmembers()
    top = {member.name.split("/")[0] for member in members}
    assert len(top) == 1
    assert not [member.name for member in members if member.issym() and member.linkname.startswith("/")]


def open_workspace():
    from pathlib import Path

    import trainwright
    from trainwright.tools.workspace import Workspace

    workspace = Workspace.open(Path("workspace"))
    print(trainwright.__file__, (workspace.path / "settings.yaml").exists())


@pytest.mark.long
def test_the_wheel_works_unpacked_and_reads_its_own_documents(distributions, tmp_path):
    """Run from the wheel's files alone: the editable install must not be what answers."""
    with zipfile.ZipFile(distributions[1]) as wheel:
        wheel.extractall(tmp_path / "site")  # noqa: S202 - our own wheel, and zipfile strips dangerous paths
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    process = subprocess.run(
        [sys.executable, "-P", "-c", body_of(open_workspace)],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == [str(tmp_path / "site" / "trainwright" / "__init__.py"), "True"]


@pytest.mark.parametrize("name", LINKED)
def test_the_links_stand_and_are_relative(name):
    link = ROOT / "src" / "trainwright" / name
    assert link.is_symlink()
    assert str(link.readlink()) == f"../../{name}"
    assert link.resolve() == ROOT / name


def test_the_version_has_one_source():
    assert version("trainwright") == trainwright.__version__


def test_constraints_are_plain_pins_that_any_machine_can_use():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert lines
    assert not [line for line in lines if line.count("==") != 1 or set("/+@ ") & set(line)]


def test_every_dependency_is_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["worker"], *extras["export"], *extras["train"], *extras["dev"]]
    names = {re.split(r"[\[<>=!]", line)[0].lower().replace("_", "-") for line in wanted}
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    assert names - pinned == {"trainwright"}


DISTRIBUTIONS = {"PIL": "pillow", "pynvml": "nvidia-ml-py", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Packages by the module that they install, where the names differ."""
FOR_OTHERS = {"onnxscript", "pyopenssl", "pytorch-optimizer"}
"""Imported by torch's exporter, by model-signing, and by the name that an optimizer is made by."""
OF_DIGESTS = {"blake3"}
"""Imported by trainer/base/canonical.py, by which the server makes its digests."""
COMES_ALONG = {"jinja2", "pydantic-core", "sqlalchemy", "torch", "typing-extensions"}
"""Of torch and what it brings, of pydantic, and, for data from databases, of the server or the project."""
WHERE_WANTED = {
    "aiohttp", "bitsandbytes", "deepspeed", "fastexcel", "mlflow", "rdkit", "timm", "wandb",
}  # fmt: skip
"""Asked for by a configuration alone, and refused in words where it is missing."""


def extras() -> dict[str, set[str]]:
    """Return the names of the packages of the core ("") and of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: {canonicalize_name(Requirement(line).name) for line in lines} for name, lines in groups.items()}


def imported(*places: str) -> set[str]:
    """Return the names of the packages that the files of these places import, early or late."""
    found = set[str]()
    for node in itertools.chain.from_iterable(map(nodes_of, sources(*places))):
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        found |= {name.partition(".")[0] for name in names if name}
    found -= {*sys.stdlib_module_names, trainwright.__name__}
    return {canonicalize_name(DISTRIBUTIONS.get(name, name)) for name in found}


def test_the_core_is_what_the_server_imports_and_nothing_that_only_a_worker_does() -> None:
    found = imported("server", "tools", "trainer/clean_room") - WHERE_WANTED | OF_DIGESTS
    assert extras()[""] - FOR_OTHERS == found - {"torch"}, "which a torch.export program needs in the clean room"


def test_the_extras_of_a_worker_are_what_its_engine_imports() -> None:
    known = extras()
    named = known["worker"] | known["export"] | known["train"] - {"trainwright"}
    assert not known["worker"] & known["train"]
    assert imported("trainer") - WHERE_WANTED - COMES_ALONG == named - FOR_OTHERS - {"torch"}


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_on_windows_an_import_says_that_it_is_wsl_and_nothing_of_fcntl() -> None:
    done = python(f"import sys; sys.platform = 'win32'; import {cli.__name__}")
    last = done.stderr.splitlines()[-1]
    assert (
        last == f"ImportError: {PLATFORMS} Run `wsl --install` in a terminal, then install Trainwright in that Linux."
    )
    assert "fcntl" not in done.stderr


def test_on_windows_the_command_says_the_same_in_one_line() -> None:
    script = f"import sys; sys.platform = 'win32'; sys.argv[0] = 'bin/trainwright.exe'; from {cli.__name__} import main"
    done = python(script)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(PLATFORMS)


def test_the_import_that_says_so_is_light() -> None:
    done = python("import sys; before = set(sys.modules); import trainwright; print(*set(sys.modules) - before)")
    assert done.stdout.split() == ["trainwright"]


def test_the_documents_say_the_sentence() -> None:
    for name in ("README.md", "docs/platforms.md"):
        text = " ".join((ROOT / name).read_text().split())
        assert "supported and tested on Linux" in text, name
        assert "WSL" in text, name


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("device", ["mps", "mps:0", "MPS"])
def test_a_macs_gpu_is_refused_with_the_platforms_and_the_change_to_the_cpu(device: str) -> None:
    values: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "training": {"device": device}}
    with pytest.raises(TrainwrightError, match="mps") as refused:
        parse_config(values)
    assert PLATFORMS.rstrip(".") in refused.value.message
    assert refused.value.details["changes"] == {"training.device": "cpu"}


def import_everything() -> None:
    import importlib
    import json
    import pkgutil
    import sys
    import warnings

    def imported() -> list[str]:
        names = [trainwright.__name__]
        for part in ("trainer", "tools", "server"):
            package = importlib.import_module(f"{trainwright.__name__}.{part}")
            names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        left = []
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError as error:
                left.append(f"{name}: {error}")
        return left

    warnings.simplefilter("ignore")
    import trainwright

    absent = imported()  # and all that other libraries bring, as on Linux
    for name in [name for name in sys.modules if name.partition(".")[0] == trainwright.__name__]:
        del sys.modules[name]
    sys.platform = "darwin"
    for module, wanting in json.loads(sys.argv[1]).items():
        for name in wanting:
            delattr(importlib.import_module(module), name)
    import trainwright

    print(json.dumps([absent, imported()]))


@pytest.mark.long
@pytest.mark.slow
def test_every_module_is_imported_without_what_linux_alone_has() -> None:
    done = python(body_of(import_everything), json.dumps(present()))
    assert done.returncode == 0, done.stderr[-2000:]
    on_linux, on_a_mac = json.loads(done.stdout.splitlines()[-1])
    assert on_a_mac == on_linux
