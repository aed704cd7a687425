"""Metrics of the user's, computed apart from the program's outputs on the fixed rows, in a process of their own.

The function's file is the one that the run imported, by its digest; the process gets a copy of it and nothing else of
the user's. What it says is the user's definition, on outputs that nobody but the clean room made.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from trainwright.tools.evaluation.process import isolated
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.launchers.environment import command_of
from trainwright.tools.launchers.worker_wall import order_apart
from trainwright.trainer.base.canonical import digest_file, digest_path
from trainwright.trainer.base.imports import imported_files
from trainwright.trainer.base.releases import BESIDE, has_torch
from trainwright.trainer.base.section import Entry, EpisodesEntry
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.metrics.evaluate import is_taken
from trainwright.trainer.run.evidence import Code

WORKER = "trainwright.trainer.jobs.own_metric"
OWN = "own"
"""Key of an evaluated split: names of the metrics that are the user's functions."""
CODE = "code"
"""Key of what a function answers, and of a reference's figures, which come again by it: the digest of its files."""
TIMEOUT_SECONDS = 120.0
NOT_KEPT = "the program's outputs on these rows are not kept"


def own_entries(config: TrainingConfig) -> list[Entry]:
    """Return the configuration's metrics that are functions of outputs and targets in a file of the user's."""
    entries = [Entry(use=one) if isinstance(one, str) else one for one in config.metrics]
    return [one for one in entries if ".py:" in one.use and not isinstance(one, EpisodesEntry)]


def add_own_metrics(run: Sealed, entries: list[Entry], answer: dict[str, Any], folder: Path) -> None:
    """Put the values of the user's metrics into the clean room's answer, or why there are none.

    Args:
        run: whose configuration names them.
        entries: the metrics.
        answer: of the clean room, which wrote outputs and targets of each split under `folder`.
        folder: a temporary one.
    """
    splits = {name: str(folder / name) for name in answer["splits"] if (folder / name / "outputs.npy").is_file()}
    for entry in entries:
        name = entry.use.rpartition(":")[2]
        order = {"name": name, "args": entry.args, "splits": splits}
        found = run_apart(run, entry.use, WORKER, order, folder) if splits else {}
        for split, record in answer["splits"].items():
            values = found.get("values", {}).get(split, {})
            taken = [one for one in values if is_taken(one) or one in record["metrics"]]
            if taken or not values:
                named = f"your function gave a value the name {taken[0]!r}, which is taken" if taken else NOT_KEPT
                record["not_computed"][name] = found.get("problem", named)
            else:
                _put(record, values, found.get("intervals", {}).get(split, {}))
                _put_rivals(record, values, found.get("rivals", {}).get(split, {}))


def _put(record: dict[str, Any], values: Mapping[str, float], intervals: Mapping[str, list[float]]) -> None:
    """Put finite values into a split's record; of a sample those with intervals, by which they are compared."""
    is_sample = record["rows"] < record["size"]
    for one, value in values.items():
        ends = [end for end in intervals.get(one, []) if math.isfinite(end)]
        if not math.isfinite(value) or (is_sample and not ends):
            record["not_computed"][one] = "it is no finite number, or has no interval on a sample of the rows"
            continue
        record["metrics"][one] = value
        record[OWN] = sorted({*record.get(OWN, []), one})
        record["intervals"] |= {one: ends} if ends else {}


def _put_rivals(record: dict[str, Any], values: Mapping[str, float], found: Mapping[str, dict[str, Any]]) -> None:
    """Put what the same function says of rivals' outputs, and of the differences, by the file that these are in."""
    for rival in record.get("rivals", {}).values():
        theirs = found.get(rival.get("kept", ""), {})
        told = {one: value for one, value in theirs.get("values", {}).items() if one in values and math.isfinite(value)}
        ends = {one: pair for one, pair in theirs.get("intervals", {}).items() if all(map(math.isfinite, pair))}
        rival.setdefault("metrics", {}).update(told)
        rival.setdefault("paired", {"intervals": {}})["intervals"] |= ends


def run_apart(
    run: Sealed,
    use: str,
    worker: str,
    order: dict[str, Any],
    folder: Path,
    *,
    seconds: float = TIMEOUT_SECONDS,
    is_imported: bool = True,
) -> dict[str, Any]:
    """Return what a job answers of a function of the user's, in a process of its own, or a `problem`. Never raises.

    The answer has the digest of the files too.

    Args:
        run: whose code root the function's file is below.
        use: `file.py:function`.
        worker: the module that is run; it is given what `copied` returns.
        order: what else it is given.
        folder: a temporary one.
        seconds: that it may take.
        is_imported: whether the file is to be the one that the run imported.
    """
    try:
        named = copied(run, use, folder, is_imported=is_imported)
        if "problem" in named:
            return named
        place = str(Path(named["file"]).parent)
        runtime, asked = run.directory.specification().runtime, order | named
        command = command_of(runtime, worker, order=order_apart(asked, str(folder), runtime))
        ended = isolated(command, asked, str(folder), cwd=place, seconds=seconds)
        answer: dict[str, Any] = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        return {"problem": f"your function took more than {seconds:g} s apart from training"}
    except OSError as error:
        return {"problem": f"your function's files cannot be read, or no process started: {error.strerror}"}
    except ValueError:
        return {"problem": "your function ended its process apart from training"}
    if problem := answer.get("problem"):
        return {
            "problem": f"your function needs more than it is given, its own file and those that it imports: {problem}"
        }
    return answer | {CODE: named[CODE]}


def copied(run: Sealed, use: str, folder: Path, *, is_imported: bool = True) -> dict[str, str]:
    """Return `file` and `root`, copies below `folder` of a file, their digest and the `callable`; or a `problem`.

    Args:
        run: below whose code root the file is; those that it imports are copied with it.
        use: `file.py:function`.
        folder: a temporary one.
        is_imported: whether the files are to be those that the run imported; a reference's may come later.
    """
    specification = run.directory.specification()
    if specification.runtime is None and not has_torch():
        return {"problem": f"the server has no torch to run your function with ({BESIDE})"}
    path, _, name = use.rpartition(":")
    root, known = Path(specification.code_root).resolve(), run.part(Code).files
    source, copies = root / path, folder / ("code" if is_imported else "beside")
    if not source.is_file() or (is_imported and PurePath(path).as_posix() not in known):
        return {"problem": f"{path} is not the file that the run imported"}
    for file in imported_files(source, root):
        place = file.relative_to(root).as_posix()
        if is_imported and place not in known:
            continue
        (copies / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copies / place)
        if is_imported and digest_file(copies / place) != known[place]:
            return {"problem": f"{place} is not the file that the run imported"}
    return {"file": str(copies / PurePath(path)), "root": str(copies), "callable": name, CODE: digest_path(copies)}
