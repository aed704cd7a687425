"""The torch model of a released folder, made again: the parts of `load.py`, which imports nothing of ours."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def from_source(how: dict[str, Any], folder: Path) -> Any:
    """Return the model that the calls make, of the folder's source or of packages, with its weights, for evaluation."""
    from importlib import import_module

    from safetensors.torch import load_file

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(one) for one in value]
        if not isinstance(value, dict) or "__call__" not in value:
            return {name: made(one) for name, one in value.items()} if isinstance(value, dict) else value
        module, _, names = value["__call__"].partition(":")
        called: Any = import_module(module)
        for name in names.split("."):
            called = getattr(called, name)
        return called(*made(value["args"]), **made(value["options"]))

    for place in how["paths"]:
        sys.path.insert(0, str(folder / place))
    model = made(how["model"])
    model.load_state_dict(load_file(folder / how["weights"]))
    return model.eval()


def from_adapter(how: dict[str, Any], folder: Path) -> Any:
    """Return the model that plain transformers makes, with the folder's prompt by plain peft, for evaluation.

    Its outputs are those of the text alone, which the folder's source sees to.
    """
    from importlib import import_module

    import transformers
    from peft import PeftModel
    from safetensors.torch import load_file

    config = transformers.AutoConfig.from_pretrained(folder / how["base"], local_files_only=True)
    held = load_file(folder / how["weights"])
    plain = getattr(transformers, how["name"])(config)
    sys.path.insert(0, str(folder / how["code"]))
    wrapped = import_module("built_in_model").Prompted(
        PeftModel.from_pretrained(plain, str(folder / how["adapter"])), how["virtual"]
    )
    wrapped.load_state_dict({name: held[name] for name in wrapped.state_dict() if name in held}, strict=False)
    return wrapped.eval()


def from_library(how: dict[str, Any], folder: Path) -> Any:
    """Return the model that plain transformers reads from the folder, in evaluation mode."""
    import transformers

    kind = getattr(transformers, how["name"])
    return kind.from_pretrained(folder / how["folder"], local_files_only=True, use_safetensors=True).eval()
