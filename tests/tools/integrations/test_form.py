"""The generated form: built by Next.js and driven in a browser against the generated service."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools.integrations import deploy

ROOT = Path(__file__).parents[3]


@pytest.fixture
def benchmark() -> Iterator[Any]:
    """benchmarks/integrations, as `make integrations` runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "integrations"))
        if (missing := importlib.import_module("programs").missing_for_web()) is not None:
            pytest.skip(f"the form cannot be built or shown here. Missing: {missing}")
        yield importlib.import_module("web")


@pytest.mark.long
@pytest.mark.requirement("SKILL-5")
def test_a_form_is_built_and_answers_in_a_browser(benchmark: Any, model_of: Any, tmp_path: Path) -> None:
    deploy(model_of("table")[0], tmp_path / "table")
    row = {"age (years)": "41", "plan": "family", "joined": "2021-03-04", "active": "true", "remark": "called"}
    right = [list(one) for one in row.items()]
    asked = {
        "right": right, "wrong": [["age (years)", "old"], *right[1:]], "files": [], "name": "age (years)",
        "told": "no finite number",
    }  # fmt: skip
    python = importlib.import_module("programs").service_python(tmp_path / "table" / "service" / "requirements.txt")
    assert benchmark.faults(python, tmp_path / "table", asked, row, tmp_path / "form.png") == []
    assert (tmp_path / "form.png").stat().st_size > 10_000
