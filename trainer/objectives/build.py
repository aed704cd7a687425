"""Objectives built from the `objective` section.

The order is: the plain objective of model and data (assembly/assemble.py settles it), wrapped or replaced here. What
changes a batch before it is learned from (mixing of samples, for example) goes around the result, so that attack and
teacher see what the model sees. Validation keeps the plain objective; what an objective adds there are measures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.metrics import require_own_names
from trainwright.trainer.objectives.adversarial import Adversarial, Robustness
from trainwright.trainer.objectives.batches import build_augmentation, evaluation_mode, input_of, require_module
from trainwright.trainer.objectives.contrastive import Contrastive, Encoder, LinearProbe, build_head, only_input
from trainwright.trainer.objectives.distillation import Distillation, build_maps, try_teacher
from trainwright.trainer.objectives.multi_task import MultiTask, Uncertainty, build_parts, metrics_of
from trainwright.trainer.objectives.outcome import NoObjective, Objective, Own
from trainwright.trainer.objectives.sections import (
    AdversarialSection,
    ContrastiveSection,
    DistillationSection,
    MultiTaskSection,
    ObjectiveSection,
    SupervisedSection,
)
from trainwright.trainer.objectives.supervised import Supervised, split_batch
from trainwright.trainer.objectives.teacher import load_teacher
from trainwright.trainer.objectives.work import Work
from trainwright.trainer.user_code.context import Context


@dataclass(frozen=True)
class Surroundings:
    """What an objective may need to be built."""

    section: ObjectiveSection
    seed: int
    work: Work
    context: Context
    device: torch.device
    untouched: Callable[[], AbstractContextManager[None]]
    """Keeps the user's state as it is while the model is called."""
    batch: Callable[[], Any]
    """A real batch on the device."""
    make_model: Callable[[Entry], nn.Module]
    exporting: bool
    """Whether the run only measures and exports: then nothing is trained, and no teacher is needed."""


@dataclass(frozen=True)
class Built:
    """Training and validation objective, and what comes with them."""

    training: Objective
    validation: Objective
    own: Own


def prepare_work(section: ObjectiveSection, work: Work) -> None:
    """Settle what the objective decides about the work, before the model is called for the first time."""
    if isinstance(section, ContrastiveSection):
        work.returns, work.loss = "output", None  # features are no predictions, and there is nothing to compare with
    elif isinstance(section, MultiTaskSection):
        work.returns, work.loss = "output", None  # each task has its own
        work.metrics = [*work.metrics, *metrics_of(build_parts(section), section)]
        require_own_names((f"metric {metric.name}", metric) for metric in work.metrics)


def build_objective(plain: Objective, around: Surroundings) -> Built:
    """Return the configuration's objective around the plain one; under a train_step there is nothing to go around.

    The global generators are left alone, so that an objective's own modules do not change what the run draws.

    Raises:
        ConfigurationError: the objective does not fit the work.
    """
    section = around.section
    if isinstance(plain, NoObjective):
        if not isinstance(section, SupervisedSection):
            raise ConfigurationError(
                f"`objective.name` = {section.name!r}, and the task's train_step makes the updates itself.",
                remedy="Leave `objective` out, or return `step` or plain parts from the task.",
            )
        return Built(plain, plain, Own())
    with seeding.preserved():
        seeding.seed_sample(around.seed, 0)
        if isinstance(section, AdversarialSection):
            return _adversarial(section, plain, around)
        if isinstance(section, DistillationSection):
            return _distillation(section, plain, around)
        if isinstance(section, ContrastiveSection):
            return _contrastive(section, around)
        if isinstance(section, MultiTaskSection):
            return _multi_task(section, around)
    return Built(plain, plain, Own())


def _adversarial(section: AdversarialSection, plain: Objective, around: Surroundings) -> Built:
    batch = around.batch()
    input_of(batch, section.input)
    with _looking(around):
        outcome = plain(around.work.model, batch)
    whole = isinstance(outcome.target, Tensor) and not outcome.target.is_floating_point()
    binary = around.work.task == "binary"
    of_classes = isinstance(outcome.output, Tensor) and (whole or binary)
    own = Own(measures=[Robustness(plain, section, of_classes=of_classes)])
    return Built(Adversarial(plain, section), plain, own)


def _distillation(section: DistillationSection, plain: Objective, around: Surroundings) -> Built:
    work = around.work
    if not isinstance(plain, Supervised):
        raise ConfigurationError(
            "Distillation calls teacher and student alike, and the task's `step` calls the model itself.",
            remedy="Return plain parts from the task, or call a teacher in `step` and leave `objective` out.",
        )
    if around.exporting:
        return Built(plain, plain, Own())
    teacher = load_teacher(section.teacher, around.context.code_root, around.make_model)
    teacher.model.to(around.device)
    if teacher.file is not None:
        work.splits.files.append(teacher.file)
    batch = around.batch()
    with _looking(around):
        try_teacher(plain, teacher.model, work.model, batch)
        maps = build_maps(section.features, plain, teacher.model, work.model, batch)
    modules = nn.ModuleDict({"maps": nn.ModuleList(maps)} if maps else {}).to(around.device)
    own = Own(modules, record={"teacher": teacher.record}, fixed={"teacher": teacher.record["weights_digest"]})
    return Built(Distillation(plain, teacher.model, section, work.task, maps), plain, own)


def _contrastive(section: ContrastiveSection, around: Surroundings) -> Built:
    model, batch, encoder = around.work.model, around.batch(), Encoder(section.features)
    _require_no_step(around)
    if section.features is not None:
        require_module(model, section.features, "objective.features")
    x = input_of(batch, section.input)
    augmentation = build_augmentation(section.augmentation, x)
    with _looking(around):
        width = encoder(model, only_input(batch, x)).shape[1]
    head = build_head(width, section.projection).to(around.device)
    target = split_batch(batch)[2]
    probed = section.linear_probe and isinstance(target, Tensor) and target.dtype == torch.int64 and target.dim() == 1
    measures = [LinearProbe(encoder, section.input, section.probe_samples)] if probed else []
    objective = Contrastive(encoder, head, augmentation, section.temperature, section.input)
    return Built(objective, objective, Own(nn.ModuleDict({"head": head}), measures))


def _multi_task(section: MultiTaskSection, around: Surroundings) -> Built:
    _require_no_step(around)
    parts = build_parts(section)
    plain = MultiTask(parts, None)
    with _looking(around):
        losses = plain.losses(*plain.columns(around.work.model, around.batch()))
    if section.weighting == "fixed":
        return Built(plain, plain, Own())
    learned = Uncertainty(parts, losses).to(around.device)
    own = Own(nn.ModuleDict({"weights": learned}), learning_rate_factor=section.learning_rate_factor)
    return Built(MultiTask(parts, learned), plain, own)


def _require_no_step(around: Surroundings) -> None:
    if around.work.step is not None:
        raise ConfigurationError(
            f"The objective {around.section.name} calls the model itself, and so does the task's `step`.",
            remedy="Return plain parts from the task, or leave `objective` out.",
        )


@contextmanager
def _looking(around: Surroundings) -> Iterator[None]:
    """Call the model without a trace: no gradients, batch statistics and the user's state as they were."""
    with evaluation_mode(around.work.model), torch.no_grad(), around.untouched():
        yield
