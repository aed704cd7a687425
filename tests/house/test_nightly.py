"""The nightly: a failing or hanging part stops no other, and an interrupted one leaves what it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NIGHTLY = Path(__file__).parents[2] / "benchmarks" / "nightly"
MAKEFILE = """
tell = echo '{"test": "tests/test_a.py::test_$(1)", "outcome": "$(2)", "reason": "$(3)"}' >> $(OUTCOMES)
mixed:
	@$(call tell,one,failed)
	@$(call tell,two,skipped,needs $(CURDIR)/a `card`)
	@echo torn >&2; exit 3
hung:
	@$(call tell,three,passed)
	@sleep 600
empty:
	@$(call tell,four,skipped,no browser)
good:
	@$(call tell,five,passed)
	@echo '{"processor_seconds": 7, "areas": {"a": 7}}'
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with four parts, of which one never ends."""
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for folder in ("tests", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "Makefile").write_text(MAKEFILE)
    parts = [
        {"name": name, "shows": "it", "make": name, "minutes": 0.03} for name in ("mixed", "hung", "empty", "good")
    ]
    (tmp_path / "parts.json").write_text(json.dumps(parts))
    (tmp_path / ".gitignore").write_text(".venv\n")
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def command(checkout: Path, *more: str) -> list[str]:
    named = ["--root", str(checkout), "--parts", str(checkout / "parts.json")]
    return [sys.executable, "-P", str(NIGHTLY), *named, *more]


def recorded(checkout: Path) -> dict[str, Any]:
    return json.loads((checkout / "tests" / "nightly.json").read_text())["parts"]  # type: ignore[no-any-return]


@pytest.mark.slow
def test_every_part_is_played_and_what_each_passed_failed_and_skipped_is_written_with_its_commit(
    checkout: Path,
) -> None:
    done = subprocess.run(command(checkout), capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["parts"] == {"mixed": "failed", "hung": "stopped", "empty": "nothing ran", "good": "passed"}
    assert (said["passed"], said["failed"], said["skipped"], said["finished"]) == (2, 1, 2, False)
    parts = recorded(checkout)
    assert parts["mixed"]["failures"] == ["tests/test_a.py::test_one"]
    assert parts["mixed"]["skips"] == {"needs a card": 1}, "without a folder of this machine"
    assert {name: noted["shown"] for name, noted in parts.items() if noted["shown"]} == {
        "hung": ["tests/test_a.py::test_three"], "good": ["tests/test_a.py::test_five"],
    }  # fmt: skip
    assert parts["good"]["figures"] == {"processor_seconds": 7}
    page = (checkout / "docs" / "nightly.md").read_text()
    for words in ("**Unfinished**: hung.", "| 1 | no browser | `empty` |", "- `mixed` ended with: `torn / make:"):
        assert words in page
    (checkout / "Makefile").write_text(MAKEFILE.replace("test_a.py", "test_b.py"))
    subprocess.run(command(checkout, "--only", "good"), capture_output=True, check=True)
    again = recorded(checkout)
    assert again["good"]["commit"] == parts["good"]["commit"] + " with changes"
    assert again["good"]["shown"] == [], "what is on no commit shows nothing"
    assert again["mixed"] == parts["mixed"]


@pytest.mark.slow
def test_a_nightly_that_is_ended_leaves_what_it_has_and_says_that_it_is_unfinished(checkout: Path) -> None:
    (checkout / "parts.json").write_text((checkout / "parts.json").read_text().replace("0.03", "5"))
    (checkout / ".gitignore").write_text(".venv\n*\n")
    outcomes = checkout / ".venv" / "nightly" / "logs" / "hung.jsonl"
    with subprocess.Popen(command(checkout, "--only", "hung,good"), env=os.environ | {"MAKEFLAGS": "n"}) as process:
        while not outcomes.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
    assert process.returncode == 143
    noted = recorded(checkout)["hung"]
    assert (noted["state"], noted["passed"]) == ("interrupted", 1)
    assert (
        "**Unfinished**: hung, mixed (not run), empty (not run), good (not run)."
        in (checkout / "docs" / "nightly.md").read_text()
    )
    for words in (("--only", "hong"), ("--only", "good", "--debian") if os.geteuid() else ("--only", "x")):
        refused = subprocess.run(command(checkout, *words), capture_output=True, text=True, check=False)
        assert refused.returncode == 2
