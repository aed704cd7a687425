"""Behaviours removed from the product one at a time: each removal must turn the short suite red.

Every entry of removals.yaml edits one place of a copy of the repository, under whose interpreter the copy's package is
the one that is imported; the working tree is never touched, so nothing has to be restored, even after a kill. The tests
that an entry names must pass before and fail after. Of an older commit those that it has are run. An entry that cannot
be applied any more, or whose tests end otherwise than with a failed test, counts as a failure.

Prints a table and, as its last line, one JSON object; exits with 1 unless every removal turned red.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).parents[2]
REMOVALS, WARM = (Path(__file__).with_name(name) for name in ("removals.yaml", "warm.py"))
TEST_SECONDS = 150
"""For one test: a removal that makes it wait for ever is seen by it."""
RUN_SECONDS = 600
QUICK = 10
TESTS_FAILED = 1
"""Exit status of pytest that means what it says; any other one but 0 is an error of the entry."""

Result = Literal["red", "green", "not_applied"]


class Removal(BaseModel):
    """One behaviour, and the edit after which the product has it no more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    behaviour: str
    """What the product no longer does."""
    requirement: str
    file: str
    find: str
    """Stands once in the file."""
    replace: str
    tests: tuple[str, ...]
    """Files or node ids of the short suite, one of which fails without the behaviour."""

    def applied_to(self, text: str) -> str:
        """Return a file's text without the behaviour. Raises ValueError when the place is not found, or not unique."""
        if (number := text.count(self.find)) != 1:
            raise ValueError(f"its text stands {number} times in {self.file}")
        return text.replace(self.find, self.replace)


class Ended(NamedTuple):
    """A run of pytest."""

    status: int
    failed: list[str]
    """Tests that failed."""
    end: str
    """Of what was printed."""


class Outcome(NamedTuple):
    """A removal's result."""

    removal: Removal
    result: Result
    note: str
    seconds: float = 0.0


class Copy:
    """The repository's files in a folder of their own, with an interpreter that imports this package."""

    def __init__(self, folder: Path, commit: str | None) -> None:
        self.folder = folder
        folder.mkdir()
        _write_files(folder, commit)
        _add_interpreter(folder)
        self.process = subprocess.Popen(
            [folder / ".venv/bin/python", "-P", WARM],
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def has(self, test: str) -> bool:
        """Return whether there is a file, or a test, of this name."""
        path, name = self.folder / file_of(test), test.partition("::")[2].partition("[")[0]
        return path.is_file() and f"def {name}" in path.read_text(encoding="utf-8")

    @contextmanager
    def without(self, removal: Removal) -> Iterator[None]:
        """Leave out one behaviour for a while. Raises ValueError when it cannot be."""
        path = self.folder / removal.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        self._write(path, removal.applied_to(text))
        try:
            yield
        finally:
            self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Write a file and forget its bytecode, which may be of the same second and length."""
        path.write_text(text, encoding="utf-8")
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def test(self, tests: Iterable[str], *, to_the_end: bool = False) -> Ended:
        """Run tests of the short suite, up to the first that fails or to the end."""
        output = self.folder.with_suffix(".log")
        options = ["-q", "-m", "not long", "-p", "no:cacheprovider", "-o", f"timeout={TEST_SECONDS}"]
        options += ["--continue-on-collection-errors"] if to_the_end else ["-x"]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"arguments": [*options, *tests], "output": str(output)}) + "\n")
        self.process.stdin.flush()
        fork = int(self.process.stdout.readline())
        # pytest then stops what its tests started
        late = threading.Timer(RUN_SECONDS * (10 if to_the_end else 1), os.kill, (fork, signal.SIGINT))
        late.start()
        status = int(self.process.stdout.readline())
        late.cancel()
        told = output.read_text(encoding="utf-8", errors="replace")
        return Ended(status, re.findall(r"^(?:FAILED|ERROR) (\S+)", told, re.M), told.strip()[-300:])

    def close(self) -> None:
        """End the process that tests are forked off."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def _write_files(folder: Path, commit: str | None) -> None:
    """Write the tracked files as they are now, or as they were in a commit, as a repository of their own."""
    if commit is not None:
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x"], cwd=folder, input=archive, check=True)
    else:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(os.path.lexists, (ROOT / name for name in listed.split("\0") if name)):
            target = folder / Path(name).relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, target, follow_symlinks=False)
    for command in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


def _add_interpreter(folder: Path) -> None:
    """Make an environment with all packages of this one, in which `trainwright` is the copy's, for children too."""
    ours, theirs = Path(sys.prefix), folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", theirs], check=True)
    [packages] = theirs.glob("lib/python*/site-packages")
    (packages / "copy.pth").write_text(f"{folder / 'src'}\n{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    for path in (*(ours / "bin").iterdir(), ours / "companions"):
        target = theirs / path.relative_to(ours)
        if path.exists() and not target.exists() and not os.path.lexists(target):
            target.symlink_to(path)
    command = theirs / "bin" / "trainwright"
    text = command.read_text(encoding="utf-8").partition("\n")[2]
    command.unlink()
    command.write_text(f"#!{theirs / 'bin' / 'python'} -P\n{text}", encoding="utf-8")
    command.chmod(0o755)
    asked = [theirs / "bin/python", "-P", "-c", "import trainwright; print(trainwright.__file__)"]
    imported = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    if not imported.startswith(str(folder)):
        raise RuntimeError(f"the copy imports {imported.strip()}")


def read_removals() -> list[Removal]:
    """Return the list."""
    return [Removal.model_validate(one) for one in yaml.safe_load(REMOVALS.read_text(encoding="utf-8"))]


def check(removals: list[Removal], folder: Path, commit: str | None, jobs: int) -> Iterator[Outcome]:
    """Yield each removal's result, in order: first all tests without any removal, then one removal after the other."""
    copies = [Copy(folder / str(number), commit) for number in range(jobs)]
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)
    tests = {one.behaviour: [test for test in one.tests if copies[0].has(test)] for one in removals}
    files = by_file(test for own in tests.values() for test in own)
    shares = [[test for own in list(files.values())[number::jobs] for test in own] for number in range(jobs)]
    failing: set[str] = set()

    def after(removal: Removal) -> Outcome:
        own = tests[removal.behaviour]
        bad = failing.intersection(map(file_of, own))
        if bad or not own:
            return Outcome(removal, "not_applied", f"fails before: {', '.join(bad)}" if bad else "no such tests")
        copy = free.get()
        try:
            return _removed(copy, removal, own)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        before = pool.map(lambda copy, own: copy.test(own, to_the_end=True), copies, shares)
        for own, ended in zip(shares, before, strict=True):
            whole = ended.status == 0 or (ended.status == TESTS_FAILED and ended.failed)
            failing |= set(map(file_of, ended.failed if whole else own))
        print(f"{len(files)} files of tests without a removal; not passed: {sorted(failing) or 'none'}", flush=True)
        yield from pool.map(after, removals)
    for copy in copies:
        copy.close()


def file_of(test: str) -> str:
    """Return the file of a test that is named by its file or its node id."""
    return test.partition("::")[0]


def by_file(tests: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the tests of each file, each once; the whole file where it is named as a whole."""
    found: dict[str, set[str]] = {}
    for test in tests:
        found.setdefault(file_of(test), set()).add(test)
    return {name: (name,) if name in own else tuple(sorted(own)) for name, own in sorted(found.items())}


def _removed(copy: Copy, removal: Removal, tests: list[str]) -> Outcome:
    began = time.monotonic()
    try:
        with copy.without(removal):
            ended = copy.test(tests)
    except ValueError as error:
        return Outcome(removal, "not_applied", str(error))
    result: Result = "green" if ended.status == 0 else "not_applied"
    result = "red" if ended.status == TESTS_FAILED and ended.failed else result
    return Outcome(removal, result, "".join(ended.failed) or ended.end, time.monotonic() - began)


def main() -> None:
    """Remove, test and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="pattern of the behaviour, its file or requirement")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK}")
    parser.add_argument("--commit", help="of this commit's product and tests, in place of the working tree's")
    parser.add_argument("--tests", nargs="+", help="in place of each removal's own: whether any of these sees it")
    parser.add_argument("--jobs", type=int, default=2, help="side by side")
    asked = parser.parse_args()
    began = time.monotonic()
    fits = re.compile(asked.only, re.I).search
    removals = [one for one in read_removals() if fits(f"{one.behaviour} {one.file} {one.requirement}")]
    if asked.tests:
        removals = [one.model_copy(update={"tests": tuple(asked.tests)}) for one in removals]
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        for outcome in check(removals[: QUICK if asked.quick else None], Path(name), asked.commit, asked.jobs):
            results[outcome.result] += 1
            removal = outcome.removal
            print(f"{outcome.result:<12}{outcome.seconds:5.0f} s  {removal.requirement:<9} {removal.behaviour}")
            print(f"{'':21}{removal.file}; {outcome.note}", flush=True)
    figures = {"behaviours": results.total(), **{one: results[one] for one in ("red", "green", "not_applied")}}
    print(json.dumps({**figures, "seconds": round(time.monotonic() - began)}))
    raise SystemExit(0 if results["red"] == results.total() else 1)


if __name__ == "__main__":
    main()
