"""What is installed is what stands in the tree, by every way of installing."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.function_text import body_of

import trainwright
from trainwright.server import cli

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


def test_the_wheel_holds_exactly_the_tracked_files(wheel_files):
    expected = {f"trainwright/{name}" for name in _tracked_files()}
    expected |= {"trainwright/__init__.py", "trainwright/py.typed"}
    packaged = {name for name in wheel_files if ".dist-info/" not in name}
    assert packaged == expected


def test_no_tracked_file_has_a_kind_that_packaging_would_drop():
    strange = [name for name in _tracked_files() if Path(name).suffix not in PACKAGED_SUFFIXES]
    assert not strange, "add the suffix to package-data in pyproject.toml and to this test"


@pytest.mark.parametrize(
    "kind", ["skills/*.md", "skills/*.yaml", "tools/workspace/migrations/versions/*.py", "tools/reports/*.j2"]
)
def test_the_wheel_has_what_is_read_as_data(wheel_files, kind):
    folder, suffix = kind.rsplit("/", 1)[0], Path(kind).suffix
    assert any(name.startswith(f"trainwright/{folder}/") and name.endswith(suffix) for name in wheel_files)


def test_the_wheel_has_its_command_and_licence(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = wheel.namelist()
        entry_points = next(name for name in names if name.endswith("entry_points.txt"))
        assert f"trainwright = {cli.__name__}:{cli.main.__name__}" in wheel.read(entry_points).decode()
        assert any(name.endswith("/licenses/LICENSE") for name in names)


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
    from importlib.metadata import version

    assert version("trainwright") == trainwright.__version__


def test_constraints_are_plain_pins_that_any_machine_can_use():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert lines
    assert not [line for line in lines if line.count("==") != 1 or set("/+@ ") & set(line)]


def test_every_dependency_is_pinned():
    import re
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {re.split(r"[\[<>=!]", line)[0].lower().replace("_", "-") for line in wanted}
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().split()}
    assert not names - pinned
