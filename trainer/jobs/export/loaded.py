"""`load.py` of a final model: its weights become the torch model again in a process that has nothing of ours.

It is shipped only where that process gave the model's outputs for held-out rows; else the record says why not.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.adapters import TOLERANCE
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.isolated import run_alone
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.jobs.export.ways import Way, none, ways
from trainwright.trainer.prediction.assembly import loading
from trainwright.trainer.run.environment import package_of
from trainwright.trainer.run.results import Loaded

LOAD = "load.py"
CALLED = """
import runpy, sys
import torch
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from safetensors.torch import load_file, save_file
from torch import Tensor
{tensors_in}
load, given, found, *names = sys.argv[1:]
model = runpy.run_path(load)["load"]()
inputs = load_file(given)
listed = [inputs[str(place)] for place in range(len(inputs))]
with torch.no_grad():
    result = model(**dict(zip(names, listed))) if names else model(*listed)
save_file(dict((str(place), one.contiguous()) for place, one in enumerate(tensors_in(result))), found)
"""


MISSING = re.compile(r"No module named '([\w.]+)'")


def tensors_in(result: Any) -> list[Tensor]:
    """Return the tensors of a model's result, (batch, ...) each, in their order; numbers alone, as losses, left out."""
    if isinstance(result, Tensor):
        return [result.clone()] if result.dim() else []
    if is_dataclass(result) and not isinstance(result, Mapping):
        result = [getattr(result, one.name) for one in fields(result)]
    listed = result.values() if isinstance(result, Mapping) else result if isinstance(result, tuple | list) else []
    return [tensor for one in listed for tensor in tensors_in(one)]


def ship_loader(session: Session, serving: Serving, rows: Inputs, folder: Path, written: Mapping[str, Any]) -> Loaded:
    """Write load.py, and the source of the model; prove them on real rows, or leave them out.

    Args:
        written: evidence of the library's folder and of the adapter.
    """
    problems: list[str] = []
    before = set(folder.rglob("*"))
    try:
        for one in ways(session, folder, written):
            try:
                return _shipped(one(), session, serving, rows, folder)
            except TrainwrightError as error:
                problems.append(error.message)
                _clear(folder, before)
    except TrainwrightError as error:
        problems.append(error.message)
    return Loaded(problem=" ".join(dict.fromkeys(problems)))


def _shipped(way: Way, session: Session, serving: Serving, rows: Inputs, folder: Path) -> Loaded:
    (folder / LOAD).write_text(loading(way.kind, way.how, _about(way.needs), way.needs), encoding="utf-8")
    try:
        found = _proven(session, serving, rows, folder, way.needs)
    except TrainwrightError as error:
        lacking = _lacking(error.message)
        if lacking is None or lacking in way.needs.split():
            raise
        return _shipped(replace(way, needs=f"{way.needs} {lacking}"), session, serving, rows, folder)
    return found.model_copy(update={"kind": way.kind, "needs": way.needs, "made_with": way.how.get("model")})


def _lacking(message: str) -> str | None:
    """Return the package of a module that another one imports without requiring it, as torch.utils.tensorboard does."""
    found = MISSING.search(message)
    return package_of(found[1].partition(".")[0]) if found is not None else None


def _clear(folder: Path, before: set[Path]) -> None:
    for path in sorted(set(folder.rglob("*")) - before, reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def _about(needs: str) -> str:
    return (
        f"The torch model of this folder: `from load import load; model = load()`. Needs Python 3.11 and {needs}.\n\n"
        "It takes what training gave the model: resolved.json says how inputs are scaled, predict.py does it.\n"
    )


def _proven(session: Session, serving: Serving, rows: Inputs, folder: Path, needs: str) -> Loaded:
    """Compare the model of load.py with the trained one. Raises IntegrityError where it fails, or differs."""
    prepared = serving.prepared(*rows.values())
    inputs = [value.clone(memory_format=torch.contiguous_format) for value in prepared]  # safetensors takes no views
    names = serving.names or []
    with torch.no_grad():
        wanted = tensors_in(session.model(**dict(zip(names, inputs, strict=True))) if names else session.model(*inputs))
    with TemporaryDirectory(prefix="loaded-") as name:
        place = Path(name)
        save_file({str(number): value for number, value in enumerate(inputs)}, place / "given.safetensors")
        arguments = [str(folder / LOAD), str(place / "given.safetensors"), str(place / "found.safetensors"), *names]
        run_alone(
            CALLED.format(tensors_in=inspect.getsource(tensors_in)),
            arguments,
            place,
            needs=f"{needs} numpy",  # by which the outputs are written
            failed=f"{LOAD} does not make the model again",
        )
        found = load_file(place / "found.safetensors")
    given = [found[str(number)] for number in range(len(found))]
    if len(given) != len(wanted) or not wanted:
        raise none(f"{LOAD} gives {len(given)} tensors, and the model {len(wanted)}")
    worst = max((difference(*pair, "real rows") for pair in zip(given, wanted, strict=True)), key=lambda one: one.ratio)
    if worst.ratio > TOLERANCE:
        raise none(f"the model of {LOAD} differs by {worst}")
    return Loaded(rows_compared=len(inputs[0]), max_abs_difference=worst.difference, tolerance=TOLERANCE)
