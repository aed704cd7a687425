"""Learning from a teacher: its outputs, and optionally its inner layers.

B samples, C classes, F features.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine, own_name
from trainwright.trainer.base.section import Entry
from trainwright.trainer.data.fingerprint import weights_digest
from trainwright.trainer.data.tensors import IGNORED
from trainwright.trainer.objectives.batches import captured, require_module
from trainwright.trainer.objectives.objective import Auxiliary, Built, Objective, Outcome, Setup
from trainwright.trainer.objectives.supervised import Supervised, plain_output, split_batch

if TYPE_CHECKING:
    from trainwright.trainer.objectives.sections import DistillationSection, FeatureSection, TeacherSection


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
        make: builds a model from an entry, for the run's data.

    Raises:
        ConfigurationError: no such file, outside the code root, no safetensors, or weights of another network.
    """
    file = _weights_file(section.weights, code_root) if section.weights is not None else None
    entry = Entry(use=section.use, args=section.args) if section.use is not None else _entry_beside(file)
    with seeding.preserved():
        seeding.seed_measurement(0)
        model = make(entry)
    if file is not None:
        _load(model, file, entry)
    model.requires_grad_(requires_grad=False).eval()
    name = (own_name(str(file), code_root) or file.name) if file is not None else None
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
            "them from the configuration beside the weights. A checkpoint of a run with frozen weights holds the "
            "others alone: name the folder of its export.",
        )
    model.load_state_dict(state)


class Distillation:
    """The plain loss, and the difference from a frozen teacher's outputs (Hinton et al. 2015, arXiv:1503.02531).

    Attributes:
        task: classification and unknown ones compare softened classes, binary softened yes and no, regression numbers.
        maps: for each matched layer, the map from the student's width to the teacher's.
    """

    def __init__(
        self,
        inner: Supervised,
        teacher: nn.Module,
        section: DistillationSection,
        task: str | None,
        maps: Sequence[nn.Module] = (),
    ) -> None:
        self.inner, self.teacher, self.section, self.task, self.maps = inner, teacher, section, task, maps

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss; outputs are the student's."""
        section = self.section
        with torch.no_grad(), captured(self.teacher, [pair.teacher for pair in section.features]) as theirs:
            taught = output_of(self.inner, self.teacher, batch)
        with captured(model, [pair.student for pair in section.features]) as ours:
            outcome = self.inner(model, batch)
        soft = soft_loss(outcome.output, taught, outcome.target, section.temperature, self.task)
        loss = section.hard_weight * outcome.loss + section.soft_weight * soft
        values = {**outcome.values, "hard_loss": outcome.loss.detach(), "soft_loss": soft.detach()}
        if section.features:
            distances = [
                pair.weight * F.mse_loss(adapt(ours[pair.student]), theirs[pair.teacher])
                for pair, adapt in zip(section.features, self.maps, strict=True)
            ]
            features = torch.stack(distances).sum()
            loss = loss + features
            values["feature_loss"] = features.detach()
        return Outcome(loss, outcome.output, outcome.target, values)

    def count(self, batch: Any) -> int:
        """Return the inner objective's count."""
        return self.inner.count(batch)


def output_of(inner: Supervised, model: nn.Module, batch: Any) -> Any:
    """Return a model's prediction for a batch, as the objective reads it, if possible without its loss."""
    if inner.returns != "output":
        return inner(model, batch).output
    args, named, _ = split_batch(batch)
    return plain_output(model(*args, **named))


def soft_loss(output: Tensor, taught: Tensor, target: Any, temperature: float, task: str | None) -> Tensor:
    """Return the mean difference between outputs of equal shape.

    Classes are on the last dimension of (B, tokens, C) for targets (B, tokens), else on dimension 1; positions whose
    target is ignored do not count. The factor temperature² keeps the gradient's size as the paper has it.
    """
    if task == "regression":
        return F.mse_loss(output, taught)
    if task == "binary":
        return _divergence(_two_sides(output), _two_sides(taught), temperature).mean()
    by_token = output.dim() == 3 and isinstance(target, Tensor) and output.shape[:2] == target.shape
    if not by_token:
        output, taught = output.movedim(1, -1), taught.movedim(1, -1)
    distances = _divergence(output.flatten(0, -2), taught.flatten(0, -2), temperature)
    if isinstance(target, Tensor) and not target.is_floating_point() and target.numel() == len(distances):
        counted = target.reshape(-1) != IGNORED
        return (distances * counted).sum() / counted.sum().clamp(min=1)
    return distances.mean()


def _two_sides(logit: Tensor) -> Tensor:
    """Return the logits (N, 2) of yes and no for single ones."""
    return torch.stack([logit, torch.zeros_like(logit)], dim=-1).reshape(-1, 2)


def _divergence(output_NC: Tensor, taught_NC: Tensor, temperature: float) -> Tensor:  # noqa: N803 - shapes in the names
    """Return temperature² * KL(teacher, student) of each row."""
    student = F.log_softmax(output_NC.float() / temperature, dim=-1)
    teacher = F.log_softmax(taught_NC.float() / temperature, dim=-1)
    return F.kl_div(student, teacher, reduction="none", log_target=True).sum(-1) * temperature**2


def try_teacher(inner: Supervised, teacher: nn.Module, model: nn.Module, batch: Any) -> None:
    """Hold the teacher's outputs on a real batch against the student's.

    Raises:
        ConfigurationError: there are none to compare, or the shapes differ.
    """
    ours, theirs = output_of(inner, model, batch), output_of(inner, teacher, batch)
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        raise ConfigurationError(
            "Distillation compares outputs, and the model gives only a loss.",
            remedy="Let the model return its logits (`returns` output or 'logits,loss').",
        )
    if ours.shape != theirs.shape:
        raise ConfigurationError(
            f"The teacher's outputs {tuple(theirs.shape)} do not fit the student's {tuple(ours.shape)}.",
            remedy="Both need the same classes in the same order.",
        )


def build_maps(
    pairs: Sequence[FeatureSection], inner: Supervised, teacher: nn.Module, model: nn.Module, batch: Any
) -> list[nn.Module]:
    """Return for each matched layer a learned map from the student's width to the teacher's, or none where it fits.

    Linear on the last dimension of (B, F) and (B, tokens, F), a 1x1 convolution for (B, F, height, width).

    Raises:
        ConfigurationError: no such module, or the shapes differ in more than the width.
    """
    for number, pair in enumerate(pairs):
        require_module(model, pair.student, f"objective.features.{number}.student")
        require_module(teacher, pair.teacher, f"objective.features.{number}.teacher")
    names = [pair.student for pair in pairs], [pair.teacher for pair in pairs]
    with captured(model, names[0]) as ours, captured(teacher, names[1]) as theirs:
        output_of(inner, model, batch)
        output_of(inner, teacher, batch)
    return [_map(pair, ours.get(pair.student), theirs.get(pair.teacher)) for pair in pairs]


def _map(pair: FeatureSection, ours: Any, theirs: Any) -> nn.Module:
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        raise ConfigurationError(
            f"`objective.features`: {pair.student} or {pair.teacher} gives no tensor when the model is called.",
            remedy="Name modules that the forward pass uses and that return a tensor.",
        )
    if ours.shape == theirs.shape:
        return nn.Identity()
    width = 1 if ours.dim() == 4 else ours.dim() - 1
    rest = [tuple(size for place, size in enumerate(side.shape) if place != width) for side in (ours, theirs)]
    if ours.dim() != theirs.dim() or rest[0] != rest[1]:
        raise ConfigurationError(
            f"`objective.features`: {pair.student} gives {tuple(ours.shape)} and {pair.teacher} {tuple(theirs.shape)}; "
            "only the width may differ.",
            remedy="Match layers of equal resolution (or length).",
        )
    sizes = ours.shape[width], theirs.shape[width]
    return nn.Conv2d(*sizes, kernel_size=1) if ours.dim() == 4 else nn.Linear(*sizes)


def build_distillation(section: DistillationSection, plain: Objective, setup: Setup) -> Built:
    """Return the plain loss with the difference from a teacher; the plain one where nothing is trained.

    Raises:
        ConfigurationError: the task's step calls the model, or the teacher does not fit the student.
    """
    work = setup.work
    if not isinstance(plain, Supervised):
        raise ConfigurationError(
            "Distillation calls teacher and student alike, and the task's `step` calls the model itself.",
            remedy="Return plain parts from the task, or call a teacher in `step` and leave `objective` out.",
        )
    if setup.exporting:
        return Built(plain, plain)
    teacher = load_teacher(section.teacher, setup.context.code_root, setup.make_model)
    teacher.model.to(setup.device)
    if teacher.file is not None:
        work.splits.files.append(teacher.file)
    batch = setup.batch()
    with setup.without_trace():
        try_teacher(plain, teacher.model, work.model, batch)
        maps = build_maps(section.features, plain, teacher.model, work.model, batch)
    modules = nn.ModuleDict({"maps": nn.ModuleList(maps)} if maps else {}).to(setup.device)
    fixed = {"teacher": teacher.record["weights_digest"]}
    auxiliary = Auxiliary(modules, record={"teacher": teacher.record}, fixed=fixed)
    return Built(Distillation(plain, teacher.model, section, work.task, maps), plain, auxiliary)
