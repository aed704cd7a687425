"""Adapters in peft's own layout: adapter_config.json and adapter_model.safetensors, read by PeftModel.from_pretrained.

https://huggingface.co/docs/peft/developer_guides/checkpoint
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.tensor_files import save_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

FILES = ("adapter_config.json", "adapter_model.safetensors")
"""Of a folder in this layout."""
NAME = "default"
"""Under which peft keeps the one adapter."""
PREFIX = "base_model.model."
"""Before the names of a model's weights in a saved adapter, for peft wraps the model twice."""


def adapter_state(model: nn.Module) -> dict[str, Tensor]:
    """Return what was trained, by the names of peft's layout: the adapter, and modules that were trained whole."""
    from peft import get_peft_model_state_dict

    from trainwright.trainer.models.adapters.prompted import Prompted

    if isinstance(model, Prompted):
        inner: Any = model.inner
        return _alone(get_peft_model_state_dict(inner, save_embedding_layers=False))
    plain: Any = model
    state = get_peft_model_state_dict(plain, save_embedding_layers=False)
    whole = plain.peft_config[NAME].modules_to_save or []
    own = model.state_dict()
    state |= {name: value for name, value in own.items() if any(name.startswith(f"{one}.") for one in whole)}
    return _alone({f"{PREFIX}{name}": value for name, value in state.items()})


def write_adapter(model: nn.Module, folder: Path, base: str | None, revision: str | None = None) -> None:
    """Write the adapter alone.

    Args:
        base: where the frozen model comes from: a hub id, or a folder; None: it has no place of its own.
        revision: the hub's.
    """
    config = copy.copy(_holder(model).peft_config[NAME])
    config.inference_mode, config.base_model_name_or_path, config.revision = True, base, revision
    if getattr(config, "modules_to_save", None):  # peft adds the same names at each wrapping
        config.modules_to_save = sorted(set(config.modules_to_save))
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(adapter_state(model), folder / FILES[1], {"format": "pt"})
    config.save_pretrained(str(folder))


def load_adapter(model: nn.Module, folder: Path) -> None:
    """Put a saved adapter's weights into a model that has one of the same kind and sizes.

    Raises:
        ConfigurationError: it is another kind of adapter, or has other tensors.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        kind = json.loads((folder / FILES[0]).read_text(encoding="utf-8")).get("peft_type")
        given = load_file(folder / FILES[1])
    except (OSError, ValueError, AttributeError, SafetensorError) as error:
        raise ConfigurationError(
            f"`adapter.start_from`: {folder.name} cannot be read: {str(error)[:200]}",
            remedy="Name the adapter/ of an export, or a folder that peft's save_pretrained wrote.",
        ) from error
    holder = _holder(model)
    wanted, own = str(holder.peft_config[NAME].peft_type.value), adapter_state(model)
    problems = [f"it is {kind}, and this one {wanted}"] if kind != wanted else []
    problems += [f"it has no {name}" for name in sorted(own.keys() - given.keys())]
    problems += [f"this one has no {name}" for name in sorted(given.keys() - own.keys())]
    problems += [
        f"{name} is {tuple(given[name].shape)}, and here {tuple(own[name].shape)}"
        for name in sorted(own.keys() & given.keys())
        if given[name].shape != own[name].shape
    ]
    if getattr(holder.peft_config[NAME], "prefix_projection", False):
        problems.append("a prefix is saved without the network of `projection`")
    if problems:
        raise ConfigurationError(
            f"`adapter.start_from`: {folder.name} does not fit the adapter: {'; '.join(problems[:3])}.",
            remedy="Give `adapter` the name, rank, targets and train_also that it was made with (adapter_config.json).",
            document="configs/adapters.md",
        )
    from peft import set_peft_model_state_dict

    if holder is model:
        heads = {name.removeprefix(PREFIX): value for name, value in given.items() if _is_plain(model, name)}
        given = {name.removeprefix(PREFIX): value for name, value in given.items() if not _is_plain(model, name)}
        with torch.no_grad():
            held = model.state_dict()
            for name, value in heads.items():
                held[name].copy_(value)
    set_peft_model_state_dict(holder, given)


def _is_plain(model: nn.Module, name: str) -> bool:
    """Return whether a saved name is a weight that the model has under it."""
    return name.removeprefix(PREFIX) in model.state_dict()


def _holder(model: nn.Module) -> Any:
    from trainwright.trainer.models.adapters.prompted import Prompted

    return model.inner if isinstance(model, Prompted) else model


def _alone(state: dict[str, Any]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}


# Adapters taken into the weights that they stand beside.


def merged(model: nn.Module) -> nn.Module:
    """Return a copy with the adapters merged into the weights; the model itself where it has none."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    if not any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        return model
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            parent, _, own = name.rpartition(".")
            setattr(plain.get_submodule(parent), own, layer.get_base_layer())  # set_submodule begins with torch 2.5
    return plain
