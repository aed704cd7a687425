"""What a run's environment lists of installed packages."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

from trainwright.trainer.run.environment import installed_packages, unreleased_packages


@pytest.mark.requirement("REPRO-3")
def test_what_setuptools_brings_along_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything may import it in a server's life, and no package of the project's has changed by that."""
    spec = importlib.util.find_spec("setuptools")
    assert spec is not None
    assert spec.origin is not None
    brought = Path(spec.origin).parent / "_vendor"
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place) != brought])
    before = installed_packages(), unreleased_packages()
    monkeypatch.setattr(sys, "path", [*sys.path, str(brought)])  # as its import leaves the path
    names = {str(each.metadata["Name"]).lower() for each in metadata.distributions(path=[str(brought)])}
    assert names - set(before[0]), "this setuptools brings nothing along that is not installed: the test is void"
    assert (installed_packages(), unreleased_packages()) == before


@pytest.mark.requirement("REPRO-3")
def test_a_folder_of_that_name_elsewhere_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "setuptools" / "_vendor" / "hidden-1.0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: hidden\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(made.parent)])
    assert installed_packages()["hidden"] == "1.0"
