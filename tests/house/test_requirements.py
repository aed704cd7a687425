"""Requirements and tests meet in both directions."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.shown import MANIFEST

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]

pytest_plugins = ["pytester"]


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
    for name in ("companions.py", "conftest.py", "processor_time.py", "scheduling.py", "shown.py"):
        shutil.copy(TESTS / name, folder)
    conftest = folder / "conftest.py"
    conftest.write_text(conftest.read_text().replace("GRACE_SECONDS = 5.0", "GRACE_SECONDS = 0.5"))
    (folder / "requirements.yaml").write_text(
        "done: [1]\nrequirements: {ONE-1: {tested_from: 1}, TWO-2: {tested_from: later}}\n"
    )
    pytester.makeini(
        "[pytest]\ntestpaths = tests\npythonpath = .\nmarkers =\n  requirement(*ids): x\n  companions(*names): x\n"
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a plugin that is not asked takes longer than the suite

    def run(body, *arguments):
        (folder / "test_a.py").write_text(f"import pytest\n{body}\n", encoding="utf-8")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "xdist", "--requirements", *arguments)

    return run


SHOWS_ONE = "@pytest.mark.requirement('ONE-1')\ndef test_a(): pass\ndef test_b(): pass"


def test_a_due_requirement_is_shown_by_a_test_that_ran(suite):
    assert suite(SHOWS_ONE).ret == pytest.ExitCode.OK
    for body, more in (
        ("def test_b(): pass", []),
        (SHOWS_ONE, ["-k", "test_b"]),
        ("@pytest.mark.skip(reason='no')\n" + SHOWS_ONE, []),
        ("@pytest.mark.companions('no_such')\n" + SHOWS_ONE, []),
    ):
        result = suite(body, *more)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.assert_outcomes(passed=1, skipped="skip" in body or "companions" in body)
        result.stdout.fnmatch_lines("*requirements of done issues: ONE-1.*")


def written(pytester, day):
    part = {"commit_date": day.isoformat(), "shown": ["tests/test_a.py::test_a"]}
    (pytester.path / "tests" / "nightly.json").write_text(json.dumps({"parts": {"long": part}}))


def test_what_the_tests_of_two_processes_and_the_nightly_have_shown_is_added_up(suite, pytester):
    assert suite(SHOWS_ONE, "-n", "2").ret == pytest.ExitCode.OK
    assert suite(SHOWS_ONE, "-n", "2", "-k", "test_b").ret == pytest.ExitCode.TESTS_FAILED
    written(pytester, dt.datetime.now(tz=dt.UTC))
    assert suite(SHOWS_ONE, "-n", "2", "-k", "test_b").ret == pytest.ExitCode.OK


def test_a_deselected_test_shows_it_for_a_week_after_the_nightly_has_passed_it(suite, pytester):
    """The week ends with the date of the commit at hand, so that an old checkout passes as it did."""
    day = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    dated = {"GIT_COMMITTER_DATE": day.isoformat(), "GIT_AUTHOR_DATE": day.isoformat()}
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "--quiet"], [*who, "commit", "--quiet", "--allow-empty", "--message", "x"]):
        subprocess.run(["git", *words], cwd=pytester.path, env=os.environ | dated, check=True)
    ended = {}
    for days in (0, 7, 8):
        written(pytester, day - dt.timedelta(days=days))
        ended[days] = suite(SHOWS_ONE, "-k", "test_b").ret
    assert ended == {0: pytest.ExitCode.OK, 7: pytest.ExitCode.OK, 8: pytest.ExitCode.TESTS_FAILED}
    shutil.rmtree(pytester.path / ".git")
    assert suite(SHOWS_ONE, "-k", "test_b").ret == pytest.ExitCode.TESTS_FAILED, "without git it is today"


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
