"""`load.py` of a final model: its weights become the torch model again in a process that has nothing of ours.

It is shipped only where that process gave the model's outputs for held-out rows; else the record says why not.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
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
from trainwright.trainer.jobs.export.own_functions import imported_packages, ship_source
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.models.adapters.prompted import Prompted
from trainwright.trainer.models.adapters.task_types import is_of_library
from trainwright.trainer.models.weight_types import is_quantised
from trainwright.trainer.prediction.assembly import alone, loading
from trainwright.trainer.run.directory import write_generated
from trainwright.trainer.run.environment import package_of
from trainwright.trainer.run.results import AdapterExport, Loaded
from trainwright.trainer.user_code.constructions import CALL, made_with
from trainwright.trainer.user_code.entries import entry_file, is_entry, resolve_entry
from trainwright.trainer.user_code.served import CODE

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


# Ways in which load.py may make a torch model again, the surest first; each writes the source that it needs.


NETWORK, BASE, WEIGHTS = "built_in_model", "base", "model.safetensors"
"""The module of a built-in model's source, the folder of the configuration beside an adapter, and the weights' file."""
QUANTISED = (
    "the weights are quantised, which only bitsandbytes on a CUDA device computes with: load the base there with the "
    "run's `quantize`, then PeftModel.from_pretrained(base, 'adapter')"
)


@dataclass(frozen=True)
class Way:
    """One function of load.py, what it is given, and the packages that it needs."""

    kind: str
    how: dict[str, Any]
    needs: str


def none(why: str) -> IntegrityError:
    """Return the error of a model that no load.py makes."""
    return IntegrityError(why[0].upper() + why[1:] + ".", remedy="predict.py answers without the torch model.")


def ways(session: Session, folder: Path, written: Mapping[str, Any]) -> Iterator[Callable[[], Way]]:
    """Yield what may be tried in turn; each raises a TrainwrightError where it cannot be.

    Args:
        written: evidence of the library's folder and of the adapter.

    Raises:
        IntegrityError: there is none.
    """
    model, entry, library = session.model, session.config.model, written["library"]
    adapter: AdapterExport | None = written["adapter"]
    weights = WEIGHTS if adapter is None else adapter.merged_in
    if library is not None:
        how = {"name": library["class"], "folder": "transformers"}
        yield lambda: Way("from_library", how, "torch transformers")
    elif is_quantised(model):
        raise none(QUANTISED)
    elif isinstance(model, Prompted):
        yield partial(_beside_adapter, model, folder)
    elif weights is None:
        raise none("an adapter that is not merged needs the model that it was trained beside")
    elif entry is not None and not is_entry(entry.use):
        yield partial(_built_in, session, folder, weights)
    else:
        if entry is not None:
            yield partial(_by_entry, session, folder, weights)
        yield partial(_by_calls, session, folder, weights)


def _built_in(session: Session, folder: Path, weights: str) -> Way:
    """Return the call of a built-in network's source, or of the package that has it."""
    made = getattr(session.model, "made_with", None)
    if made is None:
        raise none(f"{type(session.model).__name__} is another library's, which makes it anew")
    if CALL in made:
        return _way(made, [], weights, [made[CALL].partition(".")[0].partition(":")[0]])
    write_generated(folder, {f"{CODE}/{NETWORK}.py": alone(type(session.model).__module__)})
    return _way({CALL: f"{NETWORK}:{type(session.model).__name__}", **made}, [CODE], weights, [])


def _by_entry(session: Session, folder: Path, weights: str) -> Way:
    """Return the call of the user's class or function, with the configuration's arguments."""
    entry, root = session.config.model, session.context.code_root
    assert entry is not None  # noqa: S101 - for the type
    place = Path(ship_source(entry_file(entry.use, root, key="model.use"), root, folder))
    function = resolve_entry(entry.use, root, key="model.use")
    options = {**entry.args, **vocabulary_argument(function, entry.args, session.work.splits)}
    call = {CALL: f"{_module(place)}:{entry.use.partition(':')[2]}", "args": [], "options": options}
    return _way(call, [place.parent.as_posix(), CODE], weights, imported_packages(folder))


def _by_calls(session: Session, folder: Path, weights: str) -> Way:
    """Return the call with which the user's code made the model, with the values that it took from the data.

    Raises:
        IntegrityError: it is not known, or its class is no file's.
        ConfigurationError: an argument is no plain value.
    """
    call = made_with(session.model)
    if call is None:
        raise none("it is not known with which values your code made the model")
    root, paths, packages = session.context.code_root.resolve(), [CODE], list[str]()

    def shipped(value: Any) -> Any:
        if isinstance(value, list):
            return [shipped(one) for one in value]
        if not isinstance(value, dict):
            return value
        found = {name: shipped(one) for name, one in value.items() if name != CALL}
        if CALL not in value:
            return found
        module, _, name = value[CALL].partition(":")
        file = Path(getattr(sys.modules.get(module), "__file__", None) or root.parent).resolve()
        if file.is_relative_to(root):
            place = Path(ship_source(file, root, folder))
            paths.insert(0, place.parent.as_posix())
            module = _module(place)
        else:
            packages.append(module.partition(".")[0])
        return {CALL: f"{module}:{name}", **found}

    call = shipped(call)
    return _way(call, list(dict.fromkeys(paths)), weights, [*packages, *imported_packages(folder)])


def _beside_adapter(model: Prompted, folder: Path) -> Way:
    """Return the library's model with a prompt or prefix, which plain peft reads: nothing is merged."""
    base: Any = model.inner.get_base_model()
    if not is_of_library(base):
        raise none("its adapter is beside a model of no library")
    base.config.save_pretrained(str(folder / BASE))
    write_generated(folder, {f"{CODE}/{NETWORK}.py": alone(Prompted.__module__)})
    how = {"name": type(base).__name__, "base": BASE, "adapter": "adapter", "weights": WEIGHTS, "code": CODE,
           "virtual": model.virtual}  # fmt: skip
    return Way("from_adapter", how, "torch transformers peft")


def _way(call: dict[str, Any], paths: list[str], weights: str, packages: list[str]) -> Way:
    names = dict.fromkeys(["torch", "safetensors", *sorted(packages)])
    return Way("from_source", {"paths": paths, "model": call, "weights": weights}, " ".join(names))


def _module(place: Path) -> str:
    return ".".join(place.relative_to(CODE).with_suffix("").parts).removesuffix(".__init__")
