"""Teachers, loaded safely: safetensors under the code root, a model built here, nothing unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.base.section import Entry

if TYPE_CHECKING:
    from trainwright.trainer.objectives.sections import TeacherSection

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Teacher:
    """A frozen network in evaluation mode, and where it came from."""

    model: nn.Module
    file: Path | None
    record: dict[str, Any]


def load_teacher(section: TeacherSection, code_root: Path, make: Callable[[Entry], nn.Module]) -> Teacher:
    """Build the teacher and give it its weights; the global generators are left alone.

    Args:
        make: builds a model from an entry, for the run's own data.

    Raises:
        ConfigurationError: no such file, outside the code root, no safetensors, or weights of another network.
    """
    from trainwright.trainer.data.fingerprint import weights_digest

    file = _weights_file(section.weights, code_root) if section.weights is not None else None
    entry = Entry(use=section.use, args=section.args) if section.use is not None else _entry_beside(file)
    with seeding.preserved():
        seeding.seed_sample(0)
        model = make(entry)
    if file is not None:
        _load(model, file, entry)
    model.requires_grad_(requires_grad=False).eval()
    name = file.relative_to(code_root.resolve()).as_posix() if file is not None else None
    record = {
        "use": entry.use,
        "weights": name,
        "weights_file_digest": digest_file(file) if file is not None else None,
        "weights_digest": weights_digest(model.state_dict()),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    return Teacher(model, file, record)


def _weights_file(path: str, code_root: Path) -> Path:
    """Return the safetensors file itself, or that in the folder of an export or a checkpoint."""
    if (code_root / path).is_dir():
        path = f"{path.rstrip('/')}/{WEIGHTS}"
    file = confine(path, code_root, key="objective.teacher.weights")
    if file.suffix != ".safetensors":
        raise ConfigurationError(
            f"`objective.teacher.weights` = {path!r} is no safetensors file, and others can run code when read.",
            remedy="Convert it yourself: safetensors.torch.save_file(model.state_dict(), 'teacher.safetensors').",
        )
    return file


def _entry_beside(file: Path | None) -> Entry:
    """Return the model of the configuration that an export (config.yaml) or a checkpoint (state.json) keeps."""
    assert file is not None, "the schema asks for `use` or `weights`"  # noqa: S101
    try:
        if (file.parent / "config.yaml").is_file():
            kept = yaml.safe_load((file.parent / "config.yaml").read_text(encoding="utf-8"))
        else:
            kept = json.loads((file.parent / "state.json").read_bytes())["config"]
        return Entry.model_validate({name: kept["model"][name] for name in ("use", "args")})
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigurationError(
            f"Which network {file.name} belongs to is not said: there is no configuration with a `model` beside it.",
            remedy="Set objective.teacher.use (and args) to the teacher's model, or name the folder of an export.",
        ) from error


def _load(model: nn.Module, file: Path, entry: Entry) -> None:
    try:
        state: dict[str, Tensor] = load_file(file)
    except (SafetensorError, OSError) as error:
        raise ConfigurationError(
            f"`objective.teacher.weights`: {file.name} cannot be read: {str(error)[:200]}.",
            remedy="Export the teacher again, or name another file.",
        ) from error
    own = model.state_dict()
    missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    other = [name for name in own.keys() & state.keys() if own[name].shape != state[name].shape]
    if missing or unknown or other:
        found = [
            *(f"no {name}" for name in missing[:2]),
            *(f"{name}, which the model does not have" for name in unknown[:2]),
            *(f"{name} {tuple(state[name].shape)} instead of {tuple(own[name].shape)}" for name in sorted(other)[:2]),
        ]
        raise ConfigurationError(
            f"The weights in {file.name} are not those of the teacher {entry.use} {entry.args}: {'; '.join(found)}.",
            remedy="Correct objective.teacher.use and args to the network that was trained, or leave them out to take "
            "them from the configuration beside the weights.",
        )
    model.load_state_dict(state)
