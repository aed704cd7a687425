"""Ways in which load.py may make a torch model again, the surest first; each writes the source that it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trainwright.trainer.assembly.output_format import vocabulary_argument
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.own_functions import imported_packages, ship_source
from trainwright.trainer.models.adapters.prompted import Prompted
from trainwright.trainer.models.adapters.task_types import is_of_library
from trainwright.trainer.models.weight_types import is_quantised
from trainwright.trainer.prediction.assembly import alone
from trainwright.trainer.run.directory import write_generated
from trainwright.trainer.run.results import AdapterExport
from trainwright.trainer.user_code.constructions import CALL, made_with
from trainwright.trainer.user_code.entries import entry_file, is_entry, resolve_entry
from trainwright.trainer.user_code.served import CODE

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
