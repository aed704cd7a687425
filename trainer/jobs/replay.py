"""A replay: the source run again, compared tensor by tensor, with the causes of a difference looked for (REPRO-5)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.config import config_digest
from trainwright.trainer.data.fingerprint import sample_digest, weights_digest
from trainwright.trainer.engine.session import Session
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.run.commitments import Commitments, StepState
from trainwright.trainer.run.evidence import Code, Data, Environment, Reproducibility
from trainwright.trainer.run.results import Comparison


def as_source(specification: RunSpecification) -> RunSpecification:
    """Return the replay's specification with the configuration and the length of its source.

    Raises:
        ConfigurationError: no source is named.
    """
    source = _source(specification)
    original = source.specification()
    status = source.status()
    bound = original.max_steps
    if status.stop_reason not in {"completed", "early_stopping", "max_steps"}:
        bound = status.step  # it was stopped: repeat as far as it came
    if specification.max_steps is not None:
        bound = min(specification.max_steps, bound or specification.max_steps)
    changes = {"config": original.config, "max_steps": bound, "returns": original.returns}
    return specification.model_copy(update=changes)


def compare(run: RunDirectory, specification: RunSpecification, session: Session) -> Comparison:
    """Return this run's last weights against the source's, bit by bit.

    Raises:
        IntegrityError: the source's last checkpoint is missing or damaged.
    """
    source = _source(specification)
    theirs, base = _last_weights(source)
    ours = {name: value.cpu() for name, value in session.weights().items() if isinstance(value, Tensor)}
    same = {name for name, digest in base.items() if name in ours and sample_digest(ours[name]) == digest}
    source_digest = weights_digest(theirs, base)
    theirs |= {name: ours[name] for name in same}
    different = [
        {"name": name, "max_abs_difference": _distance(ours.get(name), theirs.get(name))}
        for name in sorted(ours.keys() | theirs.keys() | base.keys())
        if not _identical(ours.get(name), theirs.get(name))
    ]
    first = first_difference(run, source)
    facts = fact_differences(run, source)
    identical = not different
    return Comparison(
        identical=identical,
        tensors=len(theirs.keys() | base.keys()),
        different=different[:20],
        relative_difference=relative_difference(ours, theirs),
        weights_digest=weights_digest(ours),
        source_weights_digest=source_digest,
        metrics_identical=first is None,
        first_difference_step=first,
        causes=[] if identical and first is None else causes_of(specification, source, facts, first),
        fingerprint_differences=facts,
    )


def compare_beginning(run: RunDirectory, specification: RunSpecification, steps: int) -> Comparison:
    """Compare the records of a replay of its source's first steps with the source's."""
    source = _source(specification)
    first = first_difference(run, source, steps=steps)
    facts = fact_differences(run, source)
    return Comparison(
        steps=steps,
        metrics_identical=first is None,
        first_difference_step=first,
        causes=[] if first is None else causes_of(specification, source, facts, first),
        fingerprint_differences=facts,
    )


def compare_step(run: RunDirectory, specification: RunSpecification, step: int) -> Comparison:
    """Compare the states before and after one step with those that the source committed to."""
    source = _source(specification)
    ours, theirs = (each.part(Commitments).steps.get(str(step), StepState()) for each in (run, source))
    facts = fact_differences(run, source)
    first = first_difference(run, source, steps=step)
    causes: list[str] = []
    if ours != theirs:
        causes = causes_of(specification, source, facts, first)
        causes += ["The states differ before the step already."] if ours.before != theirs.before else []
    return Comparison(steps=step, identical=ours == theirs, causes=causes, fingerprint_differences=facts)


def relative_difference(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float | None:
    """Return the norm of the difference of all weights over the norm of theirs; None when it cannot be formed.

    Only numbers with a fraction count: a counter that differs is reported as a tensor that is not identical.
    """
    if any(name not in ours or name not in theirs for name in ours.keys() | theirs.keys()):
        return None
    pairs = [(ours[name].double(), value.double()) for name, value in theirs.items() if value.is_floating_point()]
    if any(left.shape != right.shape for left, right in pairs):
        return None
    distance = math.hypot(*(float((left - right).norm()) for left, right in pairs))
    size = math.hypot(*(float(right.norm()) for _, right in pairs))
    found = distance / size if size else distance
    return found if math.isfinite(found) else None


def first_difference(run: RunDirectory, source: RunDirectory, *, steps: int | None = None) -> int | None:
    """Return the first step at which a loss or gradient norm differs (or only one run has it), or None.

    Args:
        steps: compare so many of the first steps; validation is left out, for which a short run has other steps.
    """
    differing = []
    for key in ("train/loss", "train/gradient_norm", *(["validation/loss"] if steps is None else [])):
        ours, theirs = (
            {step: repr(value) for step, value, _ in each.metrics().series(key) if steps is None or step <= steps}
            for each in (run, source)
        )
        differing += [step for step in ours.keys() | theirs.keys() if ours.get(step) != theirs.get(step)]
    return min(differing, default=None)


def fact_differences(run: RunDirectory, source: RunDirectory) -> dict[str, Any]:
    """Return the differences between the evidence of both runs: {fact: {source, replay}}."""
    differences: dict[str, Any] = {}

    def note(name: str, theirs: Any, ours: Any) -> None:
        if theirs != ours:
            differences[name] = {"source": theirs, "replay": ours}

    then, now = source.part(Environment), run.part(Environment)
    known = then.facts.keys() & now.facts.keys()  # what one of them did not record is no difference
    for fact in sorted(known):
        note(f"environment.{fact}", then.facts[fact], now.facts[fact])
    if "environment.packages_digest" in differences:
        changed = [n for n in then.packages | now.packages if then.packages.get(n) != now.packages.get(n)]
        differences["environment.packages_digest"]["packages"] = sorted(changed)[:20]
    note("data", source.part(Data).fingerprint, run.part(Data).fingerprint)
    theirs, ours = source.part(Code), run.part(Code)
    note("code", theirs.files, ours.files)
    note("engine", theirs.engine_digest, ours.engine_digest)
    note("settings", source.part(Reproducibility).settings, run.part(Reproducibility).settings)
    return differences


def _source(specification: RunSpecification) -> RunDirectory:
    if specification.source_run is None:
        raise ConfigurationError(
            f"A run of kind {specification.kind} needs source_run.",
            remedy="Name the run to work from, for example with verify_reproducibility(project, run_id).",
        )
    return RunDirectory(Path(specification.source_run))


def _last_weights(source: RunDirectory) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the weights of the source's last checkpoint, and the digests of those that it names only."""
    last = [record for record in list_checkpoints(source) if "last" in record.tags]
    problems = verify_checkpoint(last[0].path) if last else ["there is no last checkpoint"]
    if problems:
        raise IntegrityError(
            f"The last checkpoint of run {source.run_id} cannot be compared with: {'; '.join(problems[:3])}.",
            remedy="Resume or repeat the source run, then verify again.",
        )
    weights: dict[str, Tensor] = load_file(last[0].path / "model.safetensors")
    recorded = json.loads((last[0].path / "state.json").read_bytes()).get("frozen_base")
    return weights, recorded["tensors"] if recorded is not None else {}


def _identical(ours: Tensor | None, theirs: Tensor | None) -> bool:
    if ours is None or theirs is None or ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return False
    left, right = (value.contiguous().reshape(-1).view(torch.uint8) for value in (ours, theirs))
    return torch.equal(left, right)


def _distance(ours: Tensor | None, theirs: Tensor | None) -> float | None:
    """Return the largest absolute difference, or None when the tensors cannot be subtracted."""
    if ours is None or theirs is None or ours.shape != theirs.shape or not ours.numel():
        return None
    return float((ours.double() - theirs.double()).abs().max())


# Causes of a replay that differs from its source, in words: the machine first, the user's code last (REPRO-5).

PROCESSOR = {
    "device": "device", "cpu": "CPU", "cpu_kind": "CPU's family and model", "cpu_capability": "instruction set",
    "gpus": "GPU", "compute_capability": "compute capability",
}  # fmt: skip
"""Facts of the kind of processor, and their names."""
OF_A_MACHINE = {"cpu": ("cpu",), "cuda": ("cpu", "gpus", "driver")}
"""Facts without which the same machine is not known to be the same, by device."""


def causes_of(
    specification: RunSpecification, source: RunDirectory, facts: dict[str, Any], first: int | None
) -> list[str]:
    """Return sentences, one a cause. The user's code is named only where nothing else that is known differs.

    Args:
        specification: the replay's.
        facts: the differences, as `Comparison.fingerprint_differences`.
        first: the first step at which losses or norms differ.
    """
    causes = [*_of_the_machine(facts), *_of_the_inputs(facts), *_of_the_source(specification, source)]
    return causes or [_user_code(source, first)]


def _of_the_machine(facts: dict[str, Any]) -> list[str]:
    """Return what another machine explains, whatever the code does."""
    others = [f"{name} {_change(facts, fact)}" for fact, name in PROCESSOR.items() if f"environment.{fact}" in facts]
    causes = []
    if others:
        causes.append(
            f"It is another kind of processor: {', '.join(others)}. Equal bits are promised on the same kind only: "
            "replay on that kind, or compare within a tolerance (`relative_difference`)."
        )
    changed = {
        "cuda": "The CUDA version differs", "cudnn": "The cuDNN version differs",
        "tf32_override": "NVIDIA_TF32_OVERRIDE differs, which rounds fp32 products to TF32 or forbids that",
        "driver": "The GPU's driver differs, which compiles some kernels itself",
    }  # fmt: skip
    return causes + [
        f"{text}: {_change(facts, fact)}." for fact, text in changed.items() if f"environment.{fact}" in facts
    ]


def _change(facts: dict[str, Any], fact: str) -> str:
    found = facts[f"environment.{fact}"]
    return f"{_said(found['source'])} -> {_said(found['replay'])}"


def _said(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    kinds = dict.fromkeys(map(str, value))
    return ", ".join(f"{value.count(kind)} x {kind}" if len(value) > 1 else kind for kind in kinds)


def _of_the_inputs(facts: dict[str, Any]) -> list[str]:
    texts = {
        "data": "The data changed: the fingerprints of the splits differ.",
        "code": "The user's code changed between the runs.",
        "engine": "The engine's own code changed between the runs.",
        "settings": "The deterministic settings differ.",
        "environment.threads": "The number of CPU threads differs, which changes the order of sums.",
        "environment.python": "The Python version differs.",
        "environment.torch": "The torch version differs.",
        "environment.world_size": "The number of processes differs, which changes the order of sums.",
        "environment.precision": "The precision differs.",
        "environment.packages_digest": "Installed packages differ: "
        + ", ".join(facts.get("environment.packages_digest", {}).get("packages", [])),
    }
    return [text for fact, text in texts.items() if fact in facts]


def _of_the_source(specification: RunSpecification, source: RunDirectory) -> list[str]:
    causes, original = [], source.specification()
    if specification.config_digest not in {original.config_digest, config_digest(original.config)}:
        causes.append("The replay was ordered with another configuration; the source's was used.")
    if not original.config.reproducibility.deterministic:
        causes.append(
            "The source ran with reproducibility.deterministic false: non-deterministic operations were allowed."
        )
    if source.status().attempt > 1:
        causes.append(
            "The source was resumed; user state that is not checkpointed (globals, attributes) would be lost."
        )
    return causes


def _user_code(source: RunDirectory, first: int | None) -> str:
    known = source.part(Environment).facts
    unknown = [PROCESSOR.get(fact, fact) for fact in OF_A_MACHINE[known.get("device", "cpu")] if fact not in known]
    as_far = f" (of the source's machine, {', '.join(unknown)} was not recorded)" if unknown else ""
    where = f", first seen at step {first}" if first is not None else ""
    return (
        f"Data, code, environment and settings are the same{as_far}, so the user's code draws on something that is "
        f"not seeded{where}: time, os.urandom, secrets, numpy.random.default_rng() without a seed, set order, threads, "
        "or files that it changes itself."
    )
