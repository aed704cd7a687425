"""`load.py` of a final model: its weights become the torch model again in a process that has nothing of ours.

It is shipped only where that process gave the model's outputs for held-out rows; else the record says why not.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainwright.trainer.assembly.output_format import vocabulary_argument
from trainwright.trainer.base.errors import IntegrityError, TrainwrightError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.adapters import TOLERANCE
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.isolated import run_alone
from trainwright.trainer.jobs.export.own_functions import CODE, ship_source
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.models.weight_types import is_quantised
from trainwright.trainer.prediction.assembly import alone, loading
from trainwright.trainer.run.directory import write_generated
from trainwright.trainer.run.results import AdapterExport, Loaded
from trainwright.trainer.user_code.entries import entry_file, is_entry, resolve_entry

LOAD, NETWORK = "load.py", "built_in_model"
"""The file, and the module of a built-in model's source."""
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
How = dict[str, Any]


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
    before = set(folder.rglob("*"))
    try:
        kind, how, needs = _way(session, folder, written)
        (folder / LOAD).write_text(loading(kind, how, _about(needs)), encoding="utf-8")
        return _proven(session, serving, rows, folder).model_copy(update={"kind": kind, "needs": needs})
    except TrainwrightError as error:
        for path in set(folder.rglob("*")) - before:
            if path.is_file():
                path.unlink()
        return Loaded(problem=error.message)


def _about(needs: str) -> str:
    return (
        f"The torch model of this folder: `from load import load; model = load()`. Needs Python 3.11 and {needs}.\n\n"
        "It takes what training gave the model: resolved.json says how inputs are scaled, predict.py does it.\n"
    )


def _way(session: Session, folder: Path, written: Mapping[str, Any]) -> tuple[str, How, str]:
    """Return the function of load.py that makes the model, what it is given, and the packages that it needs.

    Raises:
        IntegrityError: no source that is in the folder makes the model.
        ConfigurationError: the user's source cannot be shipped.
    """
    model, entry, library = session.model, session.config.model, written["library"]
    if library is not None:
        return "from_library", {"name": library["class"], "folder": "transformers"}, "torch transformers"
    adapter: AdapterExport | None = written["adapter"]
    weights = "model.safetensors" if adapter is None else adapter.merged_in
    if weights is None or is_quantised(model):
        raise _none("an adapter that is not merged, or quantised weights, need the model that they were trained beside")
    if entry is None:
        raise _none("a function of yours made the model together with the data: name the model apart, with `model`")
    if not is_entry(entry.use):
        made = getattr(model, "made_with", None)
        if made is None:
            raise _none(f"{entry.use} is another library's, which makes it anew")
        write_generated(folder, {f"{CODE}/{NETWORK}.py": alone(type(model).__module__)})
        how = {"paths": [CODE], "module": NETWORK, "name": type(model).__name__, "weights": weights, **made}
        return "from_source", how, "torch safetensors"
    root = session.context.code_root
    file = entry_file(entry.use, root, key="model.use")
    place = Path(ship_source(file, root, folder))
    function = resolve_entry(entry.use, root, key="model.use")
    options = {**entry.args, **vocabulary_argument(function, entry.args, session.work.splits)}
    module = ".".join(place.relative_to(CODE).with_suffix("").parts).removesuffix(".__init__")
    how = {"paths": [place.parent.as_posix(), CODE], "module": module, "name": entry.use.partition(":")[2],
           "args": [], "options": options, "weights": weights}  # fmt: skip
    return "from_source", how, "torch safetensors"


def _none(why: str) -> IntegrityError:
    return IntegrityError(why[0].upper() + why[1:] + ".", remedy="predict.py answers without the torch model.")


def _proven(session: Session, serving: Serving, rows: Inputs, folder: Path) -> Loaded:
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
            failed=f"{LOAD} does not make the model again",
        )
        found = load_file(place / "found.safetensors")
    given = [found[str(number)] for number in range(len(found))]
    if len(given) != len(wanted) or not wanted:
        raise _none(f"{LOAD} gives {len(given)} tensors, and the model {len(wanted)}")
    worst = max((difference(*pair, "real rows") for pair in zip(given, wanted, strict=True)), key=lambda one: one.ratio)
    if worst.ratio > TOLERANCE:
        raise _none(f"the model of {LOAD} differs by {worst}")
    return Loaded(rows_compared=len(inputs[0]), max_abs_difference=worst.difference, tolerance=TOLERANCE)
