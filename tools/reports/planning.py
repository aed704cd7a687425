"""`training_config.yaml` and `reproducibility_manifest.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.reports.markdown import checks_section, table, written_at
from trainwright.tools.reports.requirements import requirement_lines
from trainwright.trainer.config import dump_yaml

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence, RunEvidence


def training_config(evidence: Evidence) -> str:
    """Return the locked configuration, every default written out."""
    head = f"# Project {evidence.name}, configuration version {evidence.version.number}, {evidence.config_digest}\n"
    return head + dump_yaml(evidence.config.model_dump(mode="json", exclude_none=True))


def reproducibility_manifest(evidence: Evidence, report: GateReport) -> str:
    """Return what the smoke run's worker measured: seeds, determinism, environment, data, code."""
    assert evidence.smoke is not None  # noqa: S101 - the gate's checks have shown it
    smoke = evidence.smoke
    parts = [
        f"# Reproducibility manifest: {evidence.name}",
        written_at(),
        f"Evidence: run `{smoke.id}`, configuration `{evidence.config_digest}`. Goal: {evidence.goal_text}.",
        checks_section(evidence, report),
        _randomness(smoke.reproducibility.as_dict()),
        _environment(smoke.environment.as_dict()),
        _data(smoke.data.as_dict()),
        _code(smoke.code.as_dict(), smoke.environment.as_dict()),
    ]
    return "\n\n".join(parts) + "\n"


def _randomness(record: dict[str, Any]) -> str:
    draws = record.get("probe", {}).get("draws_repeat", {})
    rows = [(name, "not present" if repeats is None else repeats) for name, repeats in draws.items()]
    settings = [(name, value) for name, value in record.get("settings", {}).items()]
    exemptions = ", ".join(record.get("exemptions") or []) or "none"
    return "\n\n".join(
        [
            f"## Seeds and determinism\n\nSeed {record.get('seed')}, set before user code was imported.",
            table(("generator", "same draws twice"), rows),
            table(("setting", "value in the worker"), settings),
            f"Non-deterministic operations that the owner exempted: {exemptions}.",
        ]
    )


def _environment(record: dict[str, Any]) -> str:
    hardware, torch = record.get("hardware", {}), record.get("torch", {})
    gpus = ", ".join(gpu.get("name", "?") for gpu in hardware.get("gpus", [])) or "none"
    rows = [
        ("Python", record.get("python")),
        ("platform", record.get("platform")),
        ("PyTorch", torch.get("version")),
        ("CUDA", torch.get("cuda") or "none"),
        ("threads", torch.get("threads")),
        ("CPU", f"{hardware.get('cpu')} ({hardware.get('cores')} cores, {torch.get('cpu_capability')})"),
        ("memory", f"{(hardware.get('memory_bytes') or 0) / 1e9:.1f} GB"),
        ("GPU", gpus),
        ("container image", record.get("container_image") or "none"),
        ("command line", " ".join(map(str, record.get("command_line") or []))),
        ("determinism fingerprint", record.get("fingerprint")),
    ]
    packages = "\n".join(requirement_lines(record))
    locks = [(name, digest) for name, digest in (record.get("lock_files") or {}).items()]
    parts = ["## Environment", table(("what", "value"), rows)]
    if locks:
        parts.append(table(("lock file", "digest"), locks))
    parts.append(f"Packages, as a requirements file:\n\n<!-- check: requirements -->\n```text\n{packages}\n```")
    return "\n\n".join(parts)


def _data(record: dict[str, Any]) -> str:
    rows = [
        (name, split.get("size"), split.get("fingerprint"), split.get("classes"))
        for name, split in record.get("splits", {}).items()
    ]
    files = [(name, digest) for name, digest in (record.get("files") or {}).items()]
    parts = [
        f"## Data\n\nSource: {record.get('source')}. Split: {record.get('split')}. Preprocessing: "
        f"{record.get('preprocessing_digest')}.",
        table(("split", "samples", "content fingerprint", "classes"), rows),
    ]
    return "\n\n".join([*parts, table(("file", "digest"), files)] if files else parts)


def _code(record: dict[str, Any], environment: dict[str, Any]) -> str:
    git = environment.get("git") or {}
    state = (
        f"git {git.get('commit')}, branch {git.get('branch')}, dirty: {git.get('dirty')}"
        if git
        else "no git repository"
    )
    files = [(name, digest) for name, digest in record.get("files", {}).items()]
    listed = table(("file", "digest"), files) if files else "Built-in model and data; no user code."
    engine = f"Engine {record.get('engine_version')}, {record.get('engine_digest')}."
    return f"## Code\n\n{engine} User code: {state}.\n\n{listed}"


def manifest_of(run: RunEvidence) -> str:
    """Return the manifest sections of any run, for the final model."""
    parts = [
        f"# Reproducibility manifest of run {run.id}",
        written_at(),
        _randomness(run.reproducibility.as_dict()),
        _environment(run.environment.as_dict()),
        _data(run.data.as_dict()),
        _code(run.code.as_dict(), run.environment.as_dict()),
    ]
    return "\n\n".join(parts) + "\n"
