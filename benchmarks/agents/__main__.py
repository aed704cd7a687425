"""Agent tasks: other people's work to be taken to a release, laid out, and verified from outside.

`make agent-tasks OUT=folder` lays them out (ONLY=names); `PLAY=folder` plays by `next` alone those that data and
sentence are enough for; `VERIFY=folder` computes every figure of what was released anew. Prints a table and, as its
last line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).parents[1] / "walks"))  # how an answer is read

import anyio
from listed import TASKS, entries_before, lay_out
from players.by_next import play
from task import Task
from verifying import NOT_PLAYED, RELEASED, Verdict, verify


def main() -> int:
    """Do what is asked, and return the exit status: 1 where a released figure does not come out again."""
    asked = _arguments()
    names = asked.only.split(",") if asked.only else list(TASKS)
    tasks = [TASKS[name] for name in names]
    if asked.out:
        lay_out(Path(asked.out).resolve(), tasks)
        print(f"{len(tasks)} tasks in {asked.out}: work/ is the user's folder, TASK.md all that a player is told")
    if asked.play:
        for task in tasks:
            if task.data or task.prepare:
                _play(task, Path(asked.play).resolve() / task.name)
    return _verified(tasks, Path(asked.verify).resolve()) if asked.verify else 0


def _play(task: Task, folder: Path) -> None:
    played = anyio.run(play, task, folder)
    print(f"{task.name}: {len(played.calls)} calls, then {played.why}", flush=True)


def _verified(tasks: list[Task], out: Path) -> int:
    before = entries_before(out)
    found = [verify(task, out / task.name, before.get(task.name, 0)) for task in tasks if (out / task.name).is_dir()]
    for verdict in found:
        print(_line(verdict))
    print(json.dumps(summary(found)))
    return int(any(verdict.problems for verdict in found))


def _line(verdict: Verdict) -> str:
    goal, cost = TASKS[verdict.task].goal, verdict.counts
    figure = "-" if verdict.figure is None else f"{goal.metric} {verdict.figure:.4f} of {goal.target:g}"
    spent = f"{cost.calls or '-'} calls, {cost.characters or '-'} characters, {cost.seconds or '-'} s"
    said = "".join(f"\n    {problem}" for problem in verdict.problems)
    right = "right" if verdict.is_right else "WRONG" if verdict.problems else "-"
    return f"{verdict.task:19} {verdict.state:13} {figure:24} {right:6} rows {verdict.rows or '-'}; {spent}{said}"


def summary(found: list[Verdict]) -> dict[str, object]:
    """Return what the verdicts come to."""
    played = [verdict for verdict in found if verdict.state != NOT_PLAYED]

    def median(name: str) -> float | None:
        known = [value for verdict in played if (value := getattr(verdict.counts, name)) is not None]
        return statistics.median(known) if known else None

    return {
        "tasks": len(found),
        "played": len(played),
        "released": sum(verdict.state == RELEASED for verdict in played),
        "figures_right": sum(verdict.is_right for verdict in played),
        "goals_met": sum(verdict.is_right and verdict.is_met for verdict in played),
        "calls_median": median("calls"),
        "characters_median": median("characters"),
        "seconds_median": median("seconds"),
        "wrong": [verdict.task for verdict in played if verdict.problems],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="", help="a folder to lay the tasks out in")
    parser.add_argument("--play", default="", help="such a folder, to be played by `next` alone")
    parser.add_argument("--verify", default="", help="such a folder, after somebody played")
    parser.add_argument("--only", default="", help="names, separated by commas")
    asked = parser.parse_args()
    if unknown := [name for name in asked.only.split(",") if name and name not in TASKS]:
        parser.error(f"no task {', '.join(unknown)}; there are {', '.join(TASKS)}")
    if not (asked.out or asked.play or asked.verify):
        parser.error("one of --out, --play and --verify is needed")
    return asked


if __name__ == "__main__":
    raise SystemExit(main())
