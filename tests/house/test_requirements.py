"""Requirements and tests meet in both directions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

MANIFEST = yaml.safe_load((Path(__file__).parents[1] / "requirements.yaml").read_text(encoding="utf-8"))

pytest_plugins = ["pytester"]


def test_every_requirement_of_a_done_issue_is_shown_by_a_test(shown_requirements):
    due = {name for name, entry in MANIFEST["requirements"].items() if entry["tested_from"] in MANIFEST["done"]}
    missing = sorted(due - shown_requirements)
    assert not missing, f"requirements of done issues that no test shows: {', '.join(missing)}"


def test_manifest_entries_say_what_and_when():
    assert {name: entry for name, entry in MANIFEST["requirements"].items() if not _says_what_and_when(entry)} == {}


def _says_what_and_when(entry):
    when = entry.get("tested_from")
    return (
        set(entry) <= {"title", "tested_from", "open"}
        and bool(entry.get("title"))
        and (when == "later" or isinstance(when, int))
    )


@pytest.fixture
def suite(pytester, monkeypatch):
    """A suite of its own under the real conftest and a manifest of two requirements, only one of them due."""
    folder = pytester.mkdir("tests")
    real = Path(__file__).parents[1] / "conftest.py"
    text = real.read_text(encoding="utf-8").replace("GRACE_SECONDS = 5.0", "GRACE_SECONDS = 0.5")
    (folder / "conftest.py").write_text(text, encoding="utf-8")
    for name in ("processor_time.py", "scheduling.py"):
        shutil.copy(real.with_name(name), folder)
    (folder / "requirements.yaml").write_text("requirements: {ONE-1: {}, TWO-2: {}}\n", encoding="utf-8")
    pytester.makeini("[pytest]\ntestpaths = tests\npythonpath = .\nmarkers =\n  requirement(*ids): x\n")
    (folder / "test_due.py").write_text(
        "def test_due(shown_requirements):\n    assert 'ONE-1' in shown_requirements\n", encoding="utf-8"
    )

    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a plugin that is not asked takes longer than the suite

    def run(body, *arguments):
        (folder / "test_a.py").write_text(f"import pytest\n{body}\n", encoding="utf-8")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist", *arguments)

    return run


SHOWS_ONE = "@pytest.mark.requirement('ONE-1')\ndef test_a(): pass"


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["in one process", "in two"])
def test_a_shown_requirement_is_seen(suite, workers):
    suite(SHOWS_ONE, *workers).assert_outcomes(passed=2)


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["in one process", "in two"])
def test_a_requirement_without_a_test_fails(suite, workers):
    suite("def test_a(): pass", *workers).assert_outcomes(passed=1, failed=1)


def test_a_deselected_test_still_counts_as_shown(suite):
    suite(SHOWS_ONE, "-k", "due").assert_outcomes(passed=1, deselected=1)


def test_a_part_of_the_suite_skips_the_question_with_its_reason(suite):
    result = suite("def test_a(): pass", "tests/test_due.py", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines("*only a part of the suite*")


def test_an_unknown_id_fails_the_collection(suite):
    result = suite("@pytest.mark.requirement('ONE-9')\ndef test_a(): pass")
    assert result.ret != 0
    assert "ONE-9" in result.stderr.str() + result.stdout.str()


def test_a_process_left_behind_fails_the_suite(suite):
    body = (
        "import subprocess, sys\n"
        "def test_a(tmp_path):\n"
        "    code = 'import sys; print(flush=True); sys.stdin.read()'\n"
        "    process = subprocess.Popen([sys.executable, '-c', code, str(tmp_path)], stdin=subprocess.PIPE,\n"
        "        stdout=subprocess.PIPE, start_new_session=True)\n"
        "    process.stdout.read(1)\n"
        "    sys.kept = process\n"
    )
    result = suite(body, "tests/test_a.py")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines("*left behind*")
