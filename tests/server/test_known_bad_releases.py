"""Releases that were withdrawn for safety: refused at installation, and named by the doctor without being imported."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from typer.testing import CliRunner

from trainwright.server import cli
from trainwright.server.commands import doctor
from trainwright.server.commands.doctor import examine_releases
from trainwright.trainer.base.known_bad_releases import known_bad_releases

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path):
    """A folder of packages with a withdrawn release, and another whose release is none."""
    for name, version in (("Lightning", "2.6.3"), ("pytorch_lightning", "2.6.6")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (tmp_path / "lightning.py").write_text("raise SystemExit('the intruders run')")
    return tmp_path


@pytest.mark.requirement("TRAIN-7")
def test_an_installed_bad_release_is_named_with_value_rule_and_remedy(installed):
    (finding,) = examine_releases([str(installed)])
    assert (finding.name, finding.status) == ("release of lightning", "fail")
    assert finding.found.startswith("lightning 2.6.3 is installed; 2.6.2 and 2.6.3 must not be")
    assert "GHSA-w37p-236h-pfx3" in finding.found
    assert "lightning 2.6.6" in finding.remedy
    assert "credential" in finding.remedy


@pytest.mark.requirement("TRAIN-7")
def test_the_doctor_looks_through_where_python_imports_from(installed, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setattr(doctor, "examine_packages", list)  # those import everything for long
    answer = CliRunner().invoke(cli.app, ["doctor", "--workspace", str(tmp_path)])
    assert answer.exit_code == 1
    assert "lightning 2.6.3 is installed" in answer.output.replace("\n", " ")


@pytest.mark.requirement("TRAIN-7")
def test_no_installation_of_ours_takes_a_bad_release():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [project["dependencies"], *project["optional-dependencies"].values()]
    pinned = [line.split("#")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()]
    wanted = [Requirement(line) for group in (*asked, pinned) for line in group if line.strip()]
    held = {(entry.package, version) for entry in known_bad_releases() for version in entry.versions}
    named = {requirement.name for requirement in wanted}
    assert {"lightning", "pytorch-lightning"} <= named
    assert [(str(r), v) for r in wanted for package, v in held if r.name == package and r.specifier.contains(v)] == []
