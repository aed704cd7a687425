"""Causes of a replay that differs from its source, in words: the machine first, the user's code last (REPRO-5)."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.config import config_digest
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.run.evidence import Environment

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
