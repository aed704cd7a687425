"""What a run's environment lists of installed packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from trainwright.trainer.run.environment import imported_packages, installed_packages, unreleased_packages
before = installed_packages(), unreleased_packages()
import setuptools, sys
assert any(place.endswith("_vendor") for place in sys.path), "this setuptools brings nothing along: the test is void"
assert (installed_packages(), unreleased_packages()) == before
assert "setuptools" in imported_packages()
"""


@pytest.mark.requirement("REPRO-3")
def test_what_setuptools_brings_along_is_not_installed() -> None:
    """Anything may import it in a server's life, and no package of the project's has changed by that."""
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
