"""Data probe of a smoke run with a Trainer of the user's: a fresh process must make the same rows.

Its function makes data in every process that trains, resumes or repeats. What differs from process to process (a
tokenizer that is trained there, the order of a set) would else show after planning, as data that changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.data.fingerprint import SplitRecord
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.fork import MAX_STATE_BYTES, Fork, Say, assembled_anew
from trainwright.trainer.run import RunDirectory, RunSpecification

SPLITS = ("train", "validation")
MAX_NAMED_OF = 20_000
"""Rows of a split of which the first that differs is named."""


def require_same(session: Session, fork: Fork) -> None:
    """Hold the fresh process to the same rows.

    Raises:
        UserCodeError: it makes others; names the split and the first row that differs.
        Abandoned: a stop was requested.
    """
    run, ours = session.run, _told(session.work.splits.records)
    if sum(value.nbytes for value in session.model.parameters()) > MAX_STATE_BYTES:
        fork.end()
        return
    theirs, _ = fork.answer(session.stop, run.limits().user_code_seconds)
    if theirs is None or "problem" in theirs:
        why = "it took too long or ended" if theirs is None else theirs["problem"]
        run.append_event("note", text=f"Whether another process makes the same data was not compared: {why}")
        return
    if what := _difference(ours, theirs):
        raise UserCodeError(
            f"The data are others in another process: {what}. Resuming, replays and evaluation make them anew.",
            remedy="Make them the same each time: sort what comes out of sets and folders, seed what draws "
            "(np.random.default_rng(0)), and train a tokenizer once, save it, and load the file: it gives other ids in "
            "each process that trains it.",
            document="configs/own_trainer.md",
        )
    run.append_event("data_probe", splits={name: one["size"] for name, one in ours.items()})


def _told(records: Mapping[str, SplitRecord]) -> dict[str, Any]:
    return {
        name: {"size": one.size, "digest": one.fingerprint, "rows": one.digests[:MAX_NAMED_OF]}
        for name, one in records.items()
        if name in SPLITS
    }


def _difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    for name, one in ours.items():
        other = theirs.get(name, {"size": 0, "digest": "", "rows": []})
        if one["digest"] == other["digest"]:
            continue
        if one["size"] != other["size"]:
            return f"{name} has {one['size']} rows here and {other['size']} there"
        places = [
            place for place, pair in enumerate(zip(one["rows"], other["rows"], strict=False)) if pair[0] != pair[1]
        ]
        first = f", the first is number {places[0]}" if places else ""
        return f"{len(places) or 'some'} of {one['size']} rows of {name} differ{first}"
    return ""


def made(run: RunDirectory, specification: RunSpecification, say: Say) -> None:
    """Be the fresh process: make the data, and say what they are."""
    try:
        say(_told(assembled_anew(run, specification).work.splits.records))
    except BaseException as error:  # noqa: BLE001 - another run of its own would tell
        say({"problem": f"{type(error).__name__}: {str(error)[:300]}"})
