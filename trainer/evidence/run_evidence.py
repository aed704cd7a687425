"""The evidence that a training worker leaves before its first step and after its last."""

from __future__ import annotations

import inspect
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from trainwright.trainer.assembly.loaders import steps_per_epoch
from trainwright.trainer.assembly.output_format import notes_on_model
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ReproducibilityError
from trainwright.trainer.base.paths import own_name
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.distributed import deepspeed_configuration
from trainwright.trainer.data.fingerprint import weights_digest
from trainwright.trainer.data.first_look import first_sample
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run import RunSpecification
from trainwright.trainer.run.environment import digest_of_versions
from trainwright.trainer.run.evidence import BestEpoch, Code, Environment, Resolved, Summary
from trainwright.trainer.strategies.group import present
from trainwright.trainer.supervision.sampling import SystemSampler, allowed_cores
from trainwright.trainer.user_code.context import SEEDED
from trainwright.trainer.user_code.entries import PRIVATE

_OF_SEVERAL = tuple(f"distributed.{key}" for key in ("strategy", "deepspeed", "backend", "batch_norm", "restarts"))
_OF_UPDATES = (
    "training.clip_norm",
    "training.clip_value",
    "schedule",
    "optimizer",
    "weight_averaging.learning_rate_factor",
    "weight_averaging.anneal_epochs",
)
"""Of the engine's updates: a user's train_step does not use them."""
_KEEP_DATA = f"Data must not depend on context.seed (but context.data_seed), nor on draws without a seed. {SEEDED} "


def _apart(products: Mapping[str, list[str]], most: int = 20) -> list[str]:
    """Return the names of layers whose products have another format than the most frequent one."""
    rare = sorted(products.values(), key=len)[:-1]
    return list(dict.fromkeys(name for names in rare for name in names))[:most]


def resolved_evidence(session: Session) -> Resolved:
    """Return the settings resolved before training: how the model is called, sizes, steps."""
    model, config = session.model, session.config
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    sample = session.train_loader.samples
    return Resolved(
        returns=session.work.returns if session.work.step is None and session.work.train_step is None else None,
        objective=_objective_of(session),
        objective_rests_on=session.auxiliary.record,
        judged_by="validation_step" if session.work.validation_step else "step" if session.work.step else None,
        inputs="keywords" if isinstance(first_sample(sample), Mapping) else "positional",
        told=notes_on_model(session.work) + _threads(session),
        parameters=sum(size for size, _ in sizes),
        trainable_parameters=sum(size for size, trainable in sizes if trainable),
        untrained_numbers=sum(size for size, trainable in sizes if not trainable)
        + sum(buffer.numel() for buffer in model.buffers()),
        model_class=_class_name(type(model), session),
        model_files={path.name: digest_file(path) for path in session.work.model_files},
        model_arguments=_arguments_of(type(model), config),
        device=session.device.type,
        precision=config.training.precision,
        products={name: len(layers) for name, layers in session.work.products.items()},
        products_apart=_apart(session.work.products),
        batch_size=session.work.batch_size,
        accumulation_steps=config.training.accumulation_steps,
        steps_per_epoch=steps_per_epoch(config, session.train_loader),
        total_steps=session.total_steps,
        warmup_steps=session.schedule.warmup_steps,
        parameter_groups=_parameter_groups(session),
        target_scaling=session.work.target_scaling.as_dict() if session.work.target_scaling is not None else None,
        loss=session.work.loss.name if session.work.loss is not None else None,
        user_loss=session.work.loss is not None and session.work.loss.user_defined,
        metrics=[{"name": metric.name, "user_defined": metric.user_defined} for metric in session.work.metrics],
        ignored_keys=ignored_keys(config, session),
        keys_without_effect=keys_without_effect(config, session),
        **_deepspeed(session),
    )


def _threads(session: Session) -> list[str]:
    """Say which of the machine's cores a step on the CPU uses, where it does not use them all."""
    used, cores = session.config.reproducibility.threads, int(allowed_cores())
    if session.device.type != "cpu" or used >= cores:
        return []
    return [f"a step uses {used} of {cores} cores (reproducibility.threads); a probe measures whether more help"]


def _class_name(model: type, session: Session) -> str:
    """Return the place of a class: its file, if that could not be imported by its name."""
    file = getattr(sys.modules.get(model.__module__), "__file__", None)
    if model.__module__.startswith(PRIVATE) and file is not None:
        return f"{own_name(file, session.context.code_root) or file}:{model.__qualname__}"
    return f"{model.__module__}.{model.__qualname__}"


def _deepspeed(session: Session) -> dict[str, Any]:
    """Return DeepSpeed's configuration, where it makes the updates."""
    if session.config.distributed.strategy != "deepspeed" or present() is None:
        return {}
    trained = sum(parameter.numel() for parameter in session.parameters if parameter.requires_grad)
    return {"deepspeed": deepspeed_configuration(session.config, trained)}


def _objective_of(session: Session) -> str:
    """Return the name of the minimised objective: the configuration's, or the form of the user's code."""
    name = session.config.objective.name
    own = "train_step" if session.rule.is_users else "step" if session.work.step else name
    return own if name == "supervised" else name


def _parameter_groups(session: Session) -> list[dict[str, Any]]:
    """Return each optimizer's parameters, with its peak rate and its decay."""
    return [
        {
            "optimizer": name,
            "parameters": sum(parameter.numel() for parameter in group["params"]),
            "learning_rate": float(rate),
            "weight_decay": float(group.get("weight_decay", 0.0)),
        }
        for name, optimizer in session.optimizers.items()
        for group, rate in zip(optimizer.param_groups, session.base_rates[name], strict=True)
    ]


def _arguments_of(model: type, config: TrainingConfig) -> list[str] | None:
    """Return the names that `model.args` may have; None where a function, and not the class itself, is the entry."""
    entry = config.model
    if entry is None or (":" in entry.use and entry.use.rpartition(":")[2] != model.__qualname__):
        return None
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return [name for name, parameter in inspect.signature(model).parameters.items() if parameter.kind in named]


def ignored_keys(config: TrainingConfig, session: Session) -> list[str]:
    """Return the keys that were set and have no effect with the other values."""
    dumped = config.model_dump(exclude_defaults=True)
    return [key for key in keys_without_effect(config, session) if _is_set(dumped, key)]


def keys_without_effect(config: TrainingConfig, session: Session) -> list[str]:
    """Return all keys that have no effect with the other values, set or not: a search over them changes nothing."""
    work = session.work
    without = {
        "optimizer.decay_norms_and_biases": work.param_groups is not None,
        "schedule.warmup_fraction": config.schedule.warmup_steps is not None,
        "loader.batch_size": work.batch_size != config.loader.batch_size,
        "loader.pin_memory": session.device.type != "cuda",
        "loader.num_workers": session.train_loader.is_stream and config.loader.num_workers > 1,  # one reads ahead
        "loader.prefetch_factor": config.loader.num_workers == 0,
        "loader.persistent_workers": config.loader.num_workers == 0,
        "training.initial_loss_scale": config.training.precision != "fp16",
        "training.loss_scale_growth_steps": config.training.precision != "fp16",
        "training.channels_last": all(parameter.dim() != 4 for parameter in session.model.parameters()),
        "training.compile": work.returns == "compute_loss" and not session.rule.is_users,
        **_ignored_of_split(config),
        "curriculum.stages": config.curriculum is not None and config.curriculum.pacing != "step",
        "curriculum.full_after_fraction": getattr(config.curriculum, "full_after_epochs", None) is not None,
        "progressive_resizing.full_after_fraction": getattr(config.progressive_resizing, "full_after_epochs", None)
        is not None,
        "weight_averaging.after_fraction": getattr(config.weight_averaging, "after_epochs", None) is not None,
        **dict.fromkeys(_OF_UPDATES, session.rule.is_users),
        **_ignored_of_objective(config),
        **dict.fromkeys(_OF_SEVERAL, config.distributed.processes == 1),
        "loss": work.step is not None or work.train_step is not None or work.returns not in {"output", None},
        **{f"task.args.{name}": True for name in _unread(session)},
    }
    return sorted(key for key, unused in without.items() if unused)


def _unread(session: Session) -> list[str]:
    """Return the arguments of the user's task that nothing has read; their own steps may read some later."""
    work = session.work
    has_steps = work.step is not None or work.train_step is not None
    return [] if work.arguments is None or has_steps else work.arguments.unread


def _ignored_of_objective(config: TrainingConfig) -> dict[str, bool]:
    one_step = getattr(config.objective, "attack", None) == "fgsm"
    return {f"objective.{key}": one_step for key in ("steps", "step_size", "random_start")}


def _ignored_of_split(config: TrainingConfig) -> dict[str, bool]:
    split = config.data.split if config.data is not None else SplitSection()
    classes_matter = split.by in {"random", "group"} or (split.by == "scaffold" and split.folds is not None)
    return {
        "data.split.validation": split.folds is not None and split.by != "group",  # given may leave it to be drawn
        "data.split.test": split.by == "given",
        "data.split.stratify": not classes_matter,
    }


def expected_environment(specification: RunSpecification, environment: Environment) -> str:
    """Return the digest of the installed versions that the planning gate fixed: of the packages that it names."""
    if not specification.expected_packages:
        return environment.packages_digest or ""
    return digest_of_versions(environment.packages, specification.expected_packages)


def found_code(specification: RunSpecification, code: Code) -> list[str | None]:
    """Return the digests of the run's code; where other planned parts are named, planning's if each file is as then."""
    planned = specification.planned_code
    if planned and all(own.intersection(planned.get(name, [])) for name, own in code.forms().items()):
        return [specification.expected.get("code")]
    return [code.meaning, code.digest]


def check_expected(
    specification: RunSpecification, digests: dict[str, list[str | None]], details: dict[str, Any]
) -> None:
    """Hold the run to the digests that the planning gate fixed.

    Args:
        digests: the present ones, by name; of the code, the digest of its meaning, and that of its bytes, which early
            versions fixed.

    Raises:
        ReproducibilityError: names the changed part.
    """
    changed = sorted(name for name, digest in specification.expected.items() if digest not in digests.get(name, []))
    if changed:
        raise ReproducibilityError(
            f"The {' and the '.join(changed)} changed since the planning gate fixed "
            f"{'its digest' if len(changed) == 1 else 'their digests'}.",
            remedy=f"{_KEEP_DATA if 'data' in changed else ''}"
            "Undo the change, or pass the planning gate again: pass_gate(project, phase='planning').",
            details={
                "changed": changed,
                "expected": {name: specification.expected[name] for name in changed},
                "found": {name: next(iter(digests.get(name, [])), None) for name in changed},
                **{name: details[name] for name in changed if name in details},
            },
        )


def summary_evidence(session: Session, reason: str, sampler: SystemSampler) -> Summary:
    """Return results and costs of a run that ended in order."""
    progress, config = session.progress, session.config
    last = progress.history[-1] if progress.history else {"train": {}, "validation": None}
    final = dict(last["validation"] or {})
    final |= {f"train/{name}": value for name, value in last["train"].items()}
    best = progress.best
    seconds = max(progress.train_seconds, 1e-9)
    return Summary(
        stop_reason=reason,
        epochs=progress.epoch,
        steps=progress.step,
        train_seconds=round(progress.train_seconds, 4),
        data_wait_fraction=round(min(progress.data_wait_seconds / seconds, 1.0), 6),
        samples_per_second=round(progress.samples / seconds, 3),
        final=final,
        problems=session.problems,
        best=None if best is None else BestEpoch(metric=config.selection.metric, **asdict(best)),
        weights_digest=weights_digest(session.weights()),
        skipped_updates=session.scaler.skipped_updates,
        non_finite_steps=0,  # a non-finite step ends a run as failed, without a summary
        peak_memory_bytes=peak_memory_bytes(session.device),
        cpu_percent_mean=sampler.mean("cpu_percent"),
        gpu_percent_mean=sampler.mean("gpu_percent"),
        gpus_sampled=sampler.gpus,
        early_stopping={
            "enabled": config.early_stopping.enabled,
            "stopped": reason == "early_stopping",
            "epochs_without_improvement": progress.epochs_without_improvement,
            "patience_epochs": config.early_stopping.patience_epochs,
        },
    )


def peak_memory_bytes(device: torch.device) -> int:
    """Return the most memory held at once: of the device on CUDA, else resident memory of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _is_set(dumped: dict[str, Any], key: str) -> bool:
    value: Any = dumped
    for part in key.split("."):
        if not isinstance(value, dict) or part not in value:
            return False
        value = value[part]
    return True
