"""The record of the nightly: `tests/nightly.json` for the tests' rule on requirements, `docs/nightly.md` for people."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from parts import Part

MAX_FAILED = 40
"""Failed tests that are named."""
MAX_REASON_LENGTH = 160
UNFINISHED = ("running", "interrupted", "stopped")
HEAD = """# The nightly

`make nightly` runs what CI leaves out; `make nightly ONLY=policies,plugin` some of it, and `DEBIAN=1` installs the
packages of Debian that it needs. It writes this page and [tests/nightly.json](../tests/nightly.json). A test that
`make check` skips or deselects shows its requirement where the nightly has passed it on a commit of the last week.
"""


class Record:
    """What was run, by part; parts that are not run again stay, with their own commits and dates."""

    def __init__(self, root: Path, known: Sequence[Part]) -> None:
        self.root, self.known = root, known
        self.file, self.page = root / "tests" / "nightly.json", root / "docs" / "nightly.md"
        written = json.loads(self.file.read_text(encoding="utf-8"))["parts"] if self.file.exists() else {}
        self.parts: dict[str, dict[str, Any]] = {
            part.name: written[part.name] for part in known if part.name in written
        }
        self.outcomes: dict[str, Path] = {}
        self.began = time.monotonic()

    def begin(self, part: Part, outcomes: Path) -> None:
        """Note that a part runs, on which commit, and where its outcomes are appended."""
        self.outcomes[part.name], self.began = outcomes, time.monotonic()
        changed = self._git("status", "--porcelain", "--", ":!docs/nightly.md", ":!tests/nightly.json")
        self.parts[part.name] = {
            "state": "running", "date": dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds"),
            "commit": self._git("rev-parse", "--short=8", "HEAD") + (" with changes" if changed else ""),
            "commit_date": self._git("log", "-1", "--format=%cI"),
        }  # fmt: skip
        self.write(part)

    def write(self, part: Part) -> None:
        """Write what a part has so far."""
        noted, tests = self.parts[part.name], self._tests(part)
        by_outcome = Counter(one["outcome"] for one in tests.values())
        passed = sorted(test for test, one in tests.items() if one["outcome"] == "passed")
        failed = sorted(test for test, one in tests.items() if one["outcome"] == "failed")
        noted |= {
            "minutes": round((time.monotonic() - self.began) / 60, 1),
            **{outcome: by_outcome[outcome] for outcome in ("passed", "failed", "skipped")},
            "failures": failed[:MAX_FAILED],
            "skips": dict(
                Counter(
                    self._plain(one["reason"]) for one in tests.values() if one["outcome"] == "skipped"
                ).most_common()
            ),
            "shown": passed if part.counts and "changes" not in noted["commit"] else [],
        }
        self.parts = {one.name: self.parts[one.name] for one in self.known if one.name in self.parts}
        text = json.dumps({"parts": self.parts}, indent=1, ensure_ascii=False)
        for path, content in ((self.file, text + "\n"), (self.page, self._page())):
            beside = path.with_name(f".{path.name}")
            beside.write_text(content, encoding="utf-8")
            beside.replace(path)

    def end(self, part: Part, state: str, log: Sequence[str], figures: dict[str, Any]) -> None:
        """Note how a part ended; one that ran no test did not pass."""
        noted = self.parts[part.name]
        noted |= {"state": state, "figures": self._last_object(log) | figures}
        self.write(part)
        if state == "passed" and self.outcomes[part.name].exists() and not noted["passed"]:
            noted["state"] = "nothing ran"
        if noted["state"] != "passed":
            noted["last"] = [self._plain(line) for line in log[-3:]]
        self.write(part)

    def line(self, name: str) -> str:
        """Return a part in one line."""
        noted = self.parts[name]
        return f"{name}: {noted['state']}, {_counted(noted)} in {noted['minutes']} min"

    def counts(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the sums over parts, and the line coverage where one measured it."""
        chosen = [self.parts[name] for name in names]
        figures = {key: value for noted in chosen for key, value in noted["figures"].items() if "cover" in key}
        sums = {key: sum(noted[key] for noted in chosen) for key in ("passed", "failed", "skipped")}
        commits = sorted({noted["commit"] for noted in chosen})
        finished = all(noted["state"] not in UNFINISHED for noted in chosen)
        return {"commits": commits, "finished": finished, **sums, **figures}

    def _tests(self, part: Part) -> dict[str, dict[str, str]]:
        """Return the last outcome of each test."""
        path = self.outcomes[part.name]
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        return {one["test"]: one for one in (json.loads(line) for line in lines if line.endswith("\n"))}

    def _page(self) -> str:
        missing = [part.name for part in self.known if part.name not in self.parts]
        open_ = [name for name, noted in self.parts.items() if noted["state"] in UNFINISHED]
        lines = [HEAD]
        if missing or open_:
            lines.append(f"**Unfinished**: {', '.join([*open_, *(f'{name} (not run)' for name in missing)])}.\n")
        lines += [
            "| part | what it shows | result | tests | min | commit | date |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for part in self.known:
            if (noted := self.parts.get(part.name)) is not None:
                lines.append(
                    f"| `{part.name}` | {part.shows} | {noted['state']} | {_counted(noted)} | {noted['minutes']} | "
                    f"{noted['commit']} of {noted['commit_date'][:10]} | {noted['date'][:16].replace('T', ' ')} |"
                )
        measured = self.parts.get("coverage", {}).get("figures", {})
        if "line_coverage" in measured:
            lines.append(
                f"\nLine coverage: **{measured['line_coverage']} %** of {measured['lines']:,} lines (part `coverage`)."
            )
        return "\n".join([*lines, *self._failures(), *self._reasons()]) + "\n"

    def _failures(self) -> list[str]:
        lines = []
        for name, noted in self.parts.items():
            if noted["state"] != "passed" and noted.get("last"):
                lines.append(f"- `{name}` ended with: `{' / '.join(noted['last'])}`".replace("``", "`"))
            lines += [f"- `{name}`: `{test}`" for test in noted["failures"]]
        return ["\n## What failed\n", *lines] if lines else []

    def _reasons(self) -> list[str]:
        rows = [
            f"| {count} | {reason.replace('|', '/')} | `{name}` |"
            for name, noted in self.parts.items() for reason, count in noted["skips"].items()
        ]  # fmt: skip
        return ["\n## Skipped, by reason\n", "| tests | reason | part |", "| --- | --- | --- |", *rows] if rows else []

    def _last_object(self, log: Sequence[str]) -> dict[str, Any]:
        """Return the plain figures of the JSON object that a log ends with."""
        try:
            found = json.loads(log[-1]) if log else {}
        except ValueError:
            return {}
        return (
            {key: value for key, value in found.items() if not isinstance(value, dict | list)}
            if isinstance(found, dict)
            else {}
        )

    def _plain(self, text: str) -> str:
        """Return a text on one line, without the folders of this machine and without backticks."""
        text = re.sub(rf"{re.escape(str(self.root))}/?|/(?:tmp|dev/shm|root|home)/\S+", "", text.replace("`", ""))
        return " ".join(text.split())[:MAX_REASON_LENGTH]

    def _git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()


def _counted(noted: dict[str, Any]) -> str:
    """Return the numbers of tests in words."""
    return ", ".join(f"{noted[key]} {key}" for key in ("passed", "failed", "skipped") if noted[key]) or "no tests"
