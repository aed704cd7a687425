"""Probe of `data.prepare` and `data.present` in a smoke run: both answer a few validation rows as `predict.py` will.

What the export would refuse, after the final run and its replay, is named before any of them. The code is the export's;
a fork calls the functions, which then have what is shipped with them and nothing else of the user's.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.paths import own_name
from trainwright.trainer.base.text import one_line
from trainwright.trainer.config.schema import DataSection
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import Inputs, model_inputs, not_tensors, raw_loader
from trainwright.trainer.jobs.export.parity import difference, length, part, wanted_of
from trainwright.trainer.jobs.export.predict import Schema, answer_of, is_of_outputs, own_functions
from trainwright.trainer.jobs.export.proof import contract_of
from trainwright.trainer.jobs.export.raw_inputs import alone, raw_texts_of
from trainwright.trainer.jobs.export.reasons import reason_of
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.jobs.export.serving import is_close
from trainwright.trainer.jobs.fork import Fork, Say
from trainwright.trainer.prediction.frame import Array, Batch, NoAnswerError, Program, Sample, WrongInputError
from trainwright.trainer.prediction.own import OwnAnswers, OwnRows
from trainwright.trainer.supervision.stop import Abandoned
from trainwright.trainer.user_code import guard, import_record
from trainwright.trainer.user_code.served import CODE, served_meanings

ROWS = 4
SECONDS = 1.0
"""That the functions may take together: no smoke run waits longer for them."""


def probe_own(session: Session, served: Served | None) -> dict[str, Any]:
    """Return the fields of an ExportProbe that are of the user's functions; none where there is no such function.

    Never fails.

    Args:
        served: None: the model is not called, so inputs alone are compared, and `present` is not tried.
    """
    data = session.config.data
    if data is None or not data.served:
        return {}
    return {"own_meanings": served_meanings(data.served, session.context.code_root)} | _probed(session, data, served)


def _probed(session: Session, data: DataSection, served: Served | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="raw-inputs-") as folder:
        try:
            own = own_functions(session, Path(folder))
            texts = raw_texts_of(session, ROWS) if data.prepare is not None else []
        except TrainwrightError as error:
            return {"own_problem": error.message, "own_remedy": error.remedy}
        except Exception as error:  # noqa: BLE001 - a file that is missing, or no Python
            return {"own_problem": f"{_named(data)}: {reason_of(error)}", "own_remedy": "Each is a function in a file."}
        try:
            with seeding.preserved():
                return _tried(session, served, _order(session, served, Path(folder), own, texts))
        except (Exception, Abandoned) as error:  # noqa: BLE001 - training worked, and it is said what was not tried
            return {"own_reason": one_line(f"your functions, since here {type(error).__name__}: {error}", 200)}


@dataclass(frozen=True)
class _Order:
    """What the fork is to do.

    Attributes:
        schema: of predict.py, with an `answer` where the user's function gives it.
        texts: raw inputs; none: samples are taken as they are.
        outputs: the model's for each sample, (1, ...); none: `present` is not called.
        names_samples: whether `present` is known to be given the row's number beside an output.
    """

    place: Path
    code_root: Path
    schema: Schema
    texts: list[str]
    samples: list[Inputs]
    outputs: list[Tensor]
    names_samples: bool


def _order(session: Session, served: Served | None, place: Path, own: dict[str, Schema], texts: list[str]) -> _Order:
    data, samples = session.config.data, _samples(session, served)
    assert data is not None, "it names them"  # noqa: S101
    outputs = [] if served is None else [wanted_of(served.serving, one)[0] for one in samples]
    schema = own.get("prepare", {"kind": "array"}) | {"program": {"inputs": list(samples[0])}}
    meaning = answer_of(session, schema, outputs[0]) if outputs else {}
    schema["answer"] = meaning | own.get("present", {})
    return _Order(place, session.context.code_root, schema, texts, samples, outputs, bool(texts) or ":" in data.use)


def _tried(session: Session, served: Served | None, order: _Order) -> dict[str, Any]:
    """Return what is found. Raises as the model does, and Abandoned."""
    data = session.config.data
    assert data is not None, "it names them"  # noqa: S101
    meant = {"answers_outputs": is_of_outputs(order.schema["answer"])}
    told, code = Fork.of(partial(_answer, order)).answer(session.stop, SECONDS)
    if told is None and code == -signal.SIGKILL:
        return meant | {"own_reason": f"{_named(data)}, which had not answered after {SECONDS:g} s"}
    found = told if told is not None else {"own_problem": f"{_named(data)} ended the process (exit code {code})"}
    if "own_problem" not in found and order.texts and (apart := _apart(session, served, order)):
        found["own_problem"] = f"`data.prepare` ({data.prepare}) {apart}"
    if "own_problem" in found:
        found["own_remedy"] = contract_of(list(order.samples[0]))
    return meant | found


def _named(data: DataSection) -> str:
    found = (f"`data.{name}` ({getattr(data, name)})" for name in ("prepare", "present") if getattr(data, name))
    return " and ".join(found)


def _samples(session: Session, served: Served | None) -> list[Inputs]:
    """Return the model's inputs of the first validation samples, (1, ...) each."""
    if served is not None:
        return alone(served, ROWS)
    loader = raw_loader(session)
    loader = loader if loader.batch_size is None else replace(loader, batch_size=ROWS)
    if (rows := model_inputs(session, next(loader.batches(0)))) is None:
        raise not_tensors()
    return [part(rows, row, row + 1) for row in range(min(ROWS, length(rows)))]


def _apart(session: Session, served: Served | None, order: _Order) -> str:
    """Return how an input that was prepared is another than its sample's, as far as the model heeds it; else empty."""
    tolerance = session.config.deployment.onnx_tolerance
    for place, sample in enumerate(order.samples):
        if not (file := order.place / f"{place}.npz").is_file():
            break
        with np.load(file, allow_pickle=False) as held:
            given = dict(zip(sample, map(torch.from_numpy, held.values()), strict=True))
        told = _difference_told(given, sample)
        if not told:
            continue
        told = f"makes of raw input {place + 1} {told}"
        if served is None:
            alike = all(given[name].shape == value.shape for name, value in sample.items())
            if alike and not all(is_close(given[name], value) for name, value in sample.items()):
                return told
            continue
        try:
            found = difference(wanted_of(served.serving, given)[0], order.outputs[place], "")
        except Exception as error:  # noqa: BLE001 - the model's own refusal
            return f"{told}, which the model does not take ({one_line(error, 120)})"
        if not found.ratio <= tolerance:
            return f"{told}; by that the model's outputs differ by {found.difference:.3g}"
    return ""


def _difference_told(given: Inputs, sample: Inputs) -> str:
    """Return by what an input was prepared otherwise than the sample has it, most of all; empty: by nothing."""
    apart = {name: difference(given[name], value, "") for name, value in sample.items()}
    name = max(apart, key=lambda one: apart[one].ratio)
    shape, other = (tuple(one[name].shape[1:]) for one in (given, sample))
    if shape != other:
        return f"{name} of shape {shape}, and the validation sample has {other}"
    told = f"{name} that differs from the validation sample's by up to {apart[name].difference:.3g}"
    return told if apart[name].ratio else ""


class _Kept(Program):
    """A program that keeps what it is given, and answers with the model's outputs for the samples in their order."""

    def __init__(self, order: _Order) -> None:
        self.batch, self.torch, self.shapes = None, None, {}
        self.types = {name: value.numpy().dtype for name, value in order.samples[0].items()}
        self.order, self.count, self.stage = order, 0, "prepare"

    def _run(self, feed: dict[str, Array]) -> Array:
        np.savez(self.order.place / f"{self.count}.npz", *feed.values())
        self.count, self.stage = self.count + 1, "present"
        if self.count > len(self.order.outputs):
            return np.zeros((1, 1))
        return np.asarray(self.order.outputs[self.count - 1].double().numpy())


def _answer(order: _Order, say: Say) -> None:
    """Say, in the fork, that the functions answered, or the problem."""
    program = _Kept(order)
    try:
        with redirect_stdout(StringIO()) as printed:
            reason = _answered(order, program)
        if printed.getvalue().strip():
            program.stage = ""
            raise WrongInputError("prints to standard output, where the answers are read: print to sys.stderr", "")
        say({"own_reason": reason} if reason else {})
    except BaseException as error:  # noqa: BLE001 - whatever the user's functions raise
        say({"own_problem": _told(error, order, program.stage)})


def _answered(order: _Order, program: _Kept) -> str:
    """Call the functions; return which was not called, and why."""
    torch.set_num_threads(1)  # its threads are not in the fork
    import_record.install(order.code_root)  # what is shipped is no part of the run's code
    _forget(order.code_root)
    os.chdir(order.place)
    until, schema = time.monotonic() + SECONDS / 2, order.schema
    batches = OwnRows(schema, order.place).batches(order.texts) if order.texts else _as_they_are(order)
    program.stage = "present"
    answers = OwnAnswers(schema, order.place, {}) if schema["answer"].get("present") else None
    if answers is not None and answers.takes_input and not order.names_samples:
        return "data.present, since what it is given beside an output is known in the export alone"
    if answers is not None and answers.takes_run:
        return "data.present, since what `run` gives is known in the export alone"
    is_finite = all(bool(torch.isfinite(one).all()) for one in order.outputs)
    program.stage = "prepare"
    for batch in batches:
        if answers is None or not order.outputs or not is_finite:
            program(batch[1])
        else:
            answers(program, batch)
        program.stage = "prepare"
        if time.monotonic() > until:
            break
    if answers is None or (order.outputs and is_finite):
        return ""
    return f"data.present, since the model {'gives no finite outputs yet' if order.outputs else 'was not called'}"


def _as_they_are(order: _Order) -> Iterator[Batch]:
    for row, one in enumerate(order.samples, start=1):
        yield [Sample({"row": row})], {name: value.numpy() for name, value in one.items()}


def _forget(code_root: Path) -> None:
    """Let nothing of the code root be imported, nor be imported already: it is not shipped, or anew."""
    sys.path[:] = [one for one in sys.path if one and own_name(f"{one}/x.py", code_root) is None]
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and own_name(file, code_root) is not None:
            del sys.modules[name]


def _told(error: BaseException, order: _Order, stage: str) -> str:
    """Return an error in the user's function, with the line of theirs that raised it."""
    cause, code = error.__cause__ or error, Path(os.path.realpath(order.place / CODE))
    frame = guard.innermost_of_user(list(traceback.extract_tb(cause.__traceback__)), code)
    is_named = isinstance(error, WrongInputError) and not isinstance(error, NoAnswerError)
    told = str(error).rstrip(".") if is_named else f"{type(cause).__name__}: {cause}"
    where = ""
    if frame is not None:
        where = f" ({Path(os.path.realpath(frame.filename)).relative_to(code)}, line {frame.lineno}: {frame.line})"
    own = {**order.schema.get("own", {}), **order.schema["answer"]}
    given = [name for name in ("prepare", "present") if name in own and (stage in {name, ""} or stage not in own)]
    named = " and ".join(f"`data.{name}` ({own[name].removeprefix(f'{CODE}/')})" for name in given)
    return one_line(f"{named}: {told}{where}", 600)
