"""A model whose raw inputs are prepared, or whose outputs are presented, by functions of the user's in `code/`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from trainwright.tools.integrations.final_model import CODE
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.prediction.assembly import ANSWERS

if TYPE_CHECKING:
    from trainwright.tools.integrations.final_model import FinalModel
    from trainwright.tools.integrations.inputs import Inputs
    from trainwright.tools.integrations.signature import Signature

LOCKED = {"numpy", "onnxruntime", "tokenizers"}
"""Packages of predict.py that the service's lock file has where they are needed."""
PRESENTED = {"own", "table", "array", "text", "picture"}
"""Kinds of input whose outputs come one a row, as `present` takes them."""
NUMBERED = {"own", "table", "array"}
"""Those of which a request holds what predict.py gives `present` beside an output: the raw input, or a row's number."""


def words_of(model: FinalModel, inputs: Inputs) -> str | None:
    """Return the class of predict.py that words the answers; None where a template does.

    Samples of a model with a `prepare` have no raw input that its `present` could be given. Outputs that a loss of the
    user's took as probabilities are no scores, a mask has the size of its own picture, and labels may hold at once.
    """
    answer = model.schema.get("answer", {})
    is_theirs = inputs.kind == "own" or model.own.keys() == {"present"} or answer.get("are_probabilities")
    is_theirs = is_theirs or answer.get("kind") in {"mask", "labels"}
    return ANSWERS[answer["kind"]].kind if is_theirs else None


def require_presentable(model: FinalModel, inputs: Inputs) -> None:
    """Compare the user's functions with what a service has. Raises ConfigurationError."""
    for name, entry in model.own.items():
        if entry.partition(":")[0] not in model.digests:
            raise ConfigurationError(
                f"final_model/ of {model.project} has no {entry.partition(':')[0]}, which its `{name}` is in.",
                remedy="Take the folder from a backup; `trainwright verify` names what was changed.",
            )
    present, rule = model.own.get("present"), ""
    if present is None:
        return
    kind = model.schema["kind"] if inputs.kind == "own" else inputs.kind
    if kind not in PRESENTED:
        rule = f"a service words the output of a {kind} itself"
    elif kind not in NUMBERED and _takes_input(model, present):
        rule = f"it takes the input beside an output, and a request holds no file or line of a {kind}"
    if rule:
        raise ConfigurationError(
            f"The answers of {model.project} are made by your `present` ({present}); {rule}.",
            remedy="Serve it with predict.py (README.md, 'Use'); or configure("
            f"project={model.project!r}, begin_release=True) with a data.present of the output alone, or none, then "
            "export_model and the last gate again.",
        )


def _takes_input(model: FinalModel, entry: str) -> bool:
    """Return whether a function has more than one parameter; of what is no plain function nobody knows it."""
    place, _, name = entry.partition(":")
    tree = ast.parse((model.folder / place).read_text(encoding="utf-8"))
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == name]
    if not found:
        return True
    given = found[-1].args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]) > 1


def own_packages(model: FinalModel) -> list[str]:
    """Return the packages that predict.py needs beside the service's, each in the version of training where known."""
    if not model.own:
        return []
    file = model.folder / "requirements.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    known = {_name(line): line.strip() for line in lines if "==" in line and not line.startswith("#")}
    needed = [name for name in str(model.schema.get("needs", "")).split() if name not in LOCKED]
    return [known.get(_name(name), name) for name in needed]


def with_packages(lock: str, packages: Sequence[str]) -> str:
    """Return a lock file with further packages at its end, those that it has left out."""
    locked = {_name(line) for line in lock.splitlines() if not line.startswith("#")}
    further = [one for one in packages if _name(one) not in locked]
    if not further:
        return lock
    return "\n".join([lock + "# What the code of the model imports; pip finds what these need.", *further]) + "\n"


def require_names_apart(names: Collection[str], signature: Signature) -> None:
    """Compare the user's modules with the service's: of two of one name Python finds one. Raises ConfigurationError."""
    theirs = {PurePosixPath(name).parts[1].removesuffix(".py") for name in signature.files if name[:5] == f"{CODE}/"}
    both = theirs & {name.removesuffix(".py") for name in names if name.endswith(".py") and "/" not in name}
    if both:
        name = sorted(both)[0]
        raise ConfigurationError(
            f"Your code that is released with {signature.project} has a module {name!r}, and so has the service.",
            remedy=f"Rename it (own_{name}.py), then configure(project={signature.project!r}, begin_release=True), "
            "export_model and the last gate again.",
        )


def _name(line: str) -> str:
    """Return a package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>~!\[; ]", line.strip())[0]).lower()
