"""Entries: functions and classes of the user's code that a configuration names, found and loaded."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError, near, near_matches
from trainwright.trainer.base.paths import confine, files_under
from trainwright.trainer.user_code.guard import user_code


def entry_file(use: str, code_root: Path, *, key: str) -> Path:
    """Return the file that an entry names, without importing it.

    Raises:
        ConfigurationError: malformed, not found or outside the code root; `details["near"]` is the nearest entry.
    """
    place, _, name = use.partition(":")
    if not place or not name or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigurationError(
            f"`{key}` = {use!r} is not an entry.",
            remedy='Write "module:callable" or "path/file.py:callable".',
        )
    try:
        return code_file(place, code_root, key=key)
    except ConfigurationError as error:
        meant = error.details.get("near")
        error.details["near"] = f"{meant}:{name}" if meant else None
        raise


def code_file(place: str, code_root: Path, *, key: str) -> Path:
    """Return a file of code by its path or its module's name, without importing it. Raises ConfigurationError."""
    if place.endswith(".py"):
        return confine(place, code_root, key=key)
    stem = place.replace(".", "/")
    for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
        if (code_root / candidate).is_file():
            return confine(candidate, code_root, key=key)
    modules = [
        name[:-3].removesuffix("/__init__").replace("/", ".") for name in files_under(code_root) if name.endswith(".py")
    ]
    raise ConfigurationError(
        f"`{key}`: no module {place!r} at {code_root / stem}.py or {code_root / stem}/__init__.py."
        f"{near_matches(place, modules)}",
        remedy="Entries are looked up under code_root only; correct the name or code_root.",
        details={"near": next(iter(near(place, modules)), None)},
    )


DOCUMENT = "configs/your_code.md"
PARTS_OF_A_TRAINER = (
    'Let a function return it, and name that one: trainer: {use: "train.py:make_trainer"} runs it as it is '
    "(configs/own_trainer.md). Or hand over its parts: "
    'build returns {"model": trainer.model, "train": trainer.train_dataset, "validation": '
    'trainer.eval_dataset, "collate": trainer.data_collator, "returns": ".loss"}; epochs, rate and batch size are in '
    "the configuration."
)
NETWORK_OF_LIGHTNING = (
    "Hand over its network as the model with loss and optimizer of the configuration; or a task that returns the "
    'module as `model` with `step`: def step(model, batch, context): return {"loss": model.training_step(batch, 0)}.'
)
NO_STEPS = (
    "It is not trained step by step, so no run can train it today: train it in a script of yours, and take its score "
    "as the goal that a network here has to beat, for example model: {use: mlp} on the same data."
)
LIBRARIES: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (("transformers",), "Trainer", "a Trainer of transformers", PARTS_OF_A_TRAINER),
    (("lightning", "pytorch_lightning"), "Trainer", "a Trainer of Lightning", NETWORK_OF_LIGHTNING),
    (("lightning", "pytorch_lightning"), "LightningModule", "a LightningModule", NETWORK_OF_LIGHTNING),
    (("sklearn",), "BaseEstimator", "an estimator of scikit-learn", NO_STEPS),
    (("xgboost", "lightgbm", "catboost"), "", "a model of {package}", NO_STEPS),
)
"""Packages, the class's name in its ancestry (any, where empty), its description, and the remedy."""


def require_network(value: Any, what: str) -> None:
    """Refuse objects that another library trains.

    Raises:
        ConfigurationError: says what it is, and the remedy.
    """
    kind = value if isinstance(value, type) else type(value)
    for packages, name, called, remedy in LIBRARIES:
        for ancestor in kind.__mro__:
            package = str(ancestor.__module__).partition(".")[0]
            if package in packages and (not name or ancestor.__name__ == name):
                raise ConfigurationError(
                    f"{what} gave {called.format(package=package)} ({kind.__name__}), and a run trains a "
                    "torch.nn.Module.",
                    remedy=remedy,
                    document=DOCUMENT,
                )


PRIVATE = "_user_"
"""Prefix of the names of modules whose file names belong to libraries, or are no module names."""


def is_entry(use: str) -> bool:
    """Return whether `use` names the user's code rather than a built-in."""
    return ":" in use


def import_files(places: Iterable[str], code_root: Path) -> None:
    """Import further files of the user's, so that they are part of the run's recorded code.

    Raises:
        ConfigurationError: not found, or outside the code root.
        UserCodeError: an import raised or left the process.
    """
    for place in places:
        file = code_file(place, code_root, key="code_files")
        with user_code(f"Importing {place}", code_root):
            _import(file, code_root)


def resolve_entry(use: str, code_root: Path, *, key: str) -> Any:
    """Import the file that an entry names and return its object.

    Raises:
        ConfigurationError: malformed, not found (with near matches), or defined outside the code root.
        UserCodeError: the import raised or left the process.
    """
    place, _, name = use.partition(":")
    try:
        file = entry_file(use, code_root, key=key)
    except ConfigurationError as error:
        meant = str(error.details.get("near") or "").partition(":")[0]
        error.details |= _mended(key, meant, name)
        raise
    with user_code(f"Importing {place}", code_root):
        module = _import(file, code_root)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            known = _public_names(value, module)
            raise ConfigurationError(
                f"`{key}` = {use!r}: {file.name} has no {name!r}.{near_matches(name, known)}",
                remedy=f"Name one of: {', '.join(known[:20]) or 'no public names'}.",
                details=_mended(key, place, next(iter(near(name, known)), None)),
            )
        value = getattr(value, part)
    _require_own(value, use, code_root, key=key)
    return value


def _public_names(value: Any, module: ModuleType) -> list[str]:
    """Return the names that an entry may have: those that the file defines, or all if it defines none."""
    names = {name: item for name, item in vars(value).items() if not name.startswith("_")}
    own = [name for name, item in names.items() if getattr(item, "__module__", None) == module.__name__]
    return own or list(names)


def call_entry(function: Any, args: dict[str, Any], what: str, code_root: Path, *given: Any) -> Any:
    """Call the user's object with keyword arguments, wrong ones being a configuration error that names the right ones.

    `given` comes before them, by position.

    Raises:
        ConfigurationError: `args` do not fit its signature.
        UserCodeError: it raised.
    """
    try:
        signature = inspect.signature(function)
        signature.bind(*given, **args)
    except TypeError as error:
        raise ConfigurationError(
            f"{what}: args {sorted(args)} do not fit its signature {signature}: {error}.",
            remedy="Correct `args` to the parameters of the callable.",
        ) from error
    except ValueError:
        pass  # no signature to check (a callable written in C)
    with user_code(what, code_root):
        return function(*given, **args)


def with_arguments(function: Any, args: Mapping[str, Any]) -> Any:
    """Return a callable with an entry's arguments."""
    return partial(function, **args) if args else function


def require_parameters(function: Any, what: str, *given: str) -> None:
    """Check that a callable of the user's can be called with so many values by position, which are named in `given`.

    Raises:
        ConfigurationError: it cannot; names its parameters.
    """
    called = f"{what} is called as ({', '.join(given)})"
    if not callable(function):
        raise ConfigurationError(
            f"{called}, and a {type(function).__name__} cannot be called.",
            remedy="Name a function, or a class whose instances have __call__ (of a torch.nn.Module: forward).",
        )
    try:
        inspect.signature(function).bind(*given)
    except TypeError as error:
        raise ConfigurationError(
            f"{called}, and its parameters are {parameters_of(function)}: {error}.",
            remedy=f"Name a function of ({', '.join(given)}); a function that makes one is called first by naming a "
            "class, or by a function of your own around it.",
        ) from error
    except ValueError:
        pass  # no signature to check (a callable written in C)


def parameters_of(function: Any) -> str:
    """Return the names of a callable's parameters as they stand in its definition: `(x, mask)`."""
    try:
        return f"({', '.join(inspect.signature(function).parameters)})"
    except (TypeError, ValueError):
        return "(…)"


def _mended(key: str, place: str | None, name: str | None) -> dict[str, Any]:
    """Return the near entry as `changes`, where one is near and a single key holds it."""
    return {"changes": {key: f"{place}:{name}"}} if place and name and key.endswith(".use") else {}


def _import(file: Path, code_root: Path) -> ModuleType:
    """Import a file as the module that its place under the root makes it, siblings importable as in a script."""
    for folder in (str(file.parent), str(code_root.resolve())):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    parts = file.relative_to(code_root.resolve()).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if all(part.isidentifier() for part in parts) and name:
        module = _under_its_name(name, file)
        if module is not None:
            return module
    private = PRIVATE + "_".join(parts)  # the name belongs to a library, or is no identifier
    if private in sys.modules and _is_file(sys.modules[private], file):
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(private, file)
    assert spec is not None, file  # noqa: S101 - a .py file always has a loader
    assert spec.loader is not None, file  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    spec.loader.exec_module(module)
    return module


def _under_its_name(name: str, file: Path) -> ModuleType | None:
    """Import the file by its dotted name; None where the name, or a package in it, is a library's (`code/net.py`)."""
    taken = sys.modules.get(name)
    if taken is not None and not _is_file(taken, file):
        return None
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the user's code lacks something else
        return None
    return module if _is_file(module, file) else None


def _is_file(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).resolve() == file


def _require_own(value: Any, use: str, code_root: Path, *, key: str) -> None:
    """Refuse objects that the file merely imported (`os.system`): their code is not part of the evidence."""
    if not callable(value):
        raise ConfigurationError(
            f"`{key}` = {use!r} is a {type(value).__name__}; it must be callable.", remedy="Name a function or a class."
        )
    owner = inspect.unwrap(value) if inspect.isroutine(value) or inspect.isclass(value) else type(value)
    module = sys.modules.get(getattr(owner, "__module__", "") or "")
    origin = getattr(module, "__file__", None)
    if origin is None or not Path(origin).resolve().is_relative_to(code_root.resolve()):
        raise ConfigurationError(
            f"`{key}` = {use!r} is defined in {origin or getattr(owner, '__module__', '?')}, outside the code root.",
            remedy="Wrap it in a function of your own file, such as `def build(**args): return TheirClass(**args)`.",
        )
