"""What has changed since a gate passed (PHASE-8): configuration, data, code, environment, evidence, artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.tools.owner.grants import operations
from trainwright.trainer.canonical import digest_file, digest_path
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.reproducibility.code import engine_digest
from trainwright.trainer.reproducibility.packages import installed_packages
from trainwright.trainer.user_code.whose import ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.gates.evidence import Evidence, RunEvidence

MOST_NAMED = 5


def changes_since(evidence: Evidence, rested_on: dict[str, Any], artifacts: dict[str, str]) -> list[str]:
    """Return one sentence for everything a decision rested on that is different now; none means it is fresh."""
    reasons = changes_around(evidence, rested_on)
    for run_id in rested_on.get("runs", []):
        run = evidence.run(run_id)
        reasons += run.differences if run else [f"evidence: the record of run {run_id} is gone"]
    return reasons + artifact_changes(evidence.folder, artifacts, evidence.inspection.digest)


def changes_around(evidence: Evidence, rested_on: dict[str, Any]) -> list[str]:
    """Return what is different now of all that may rightly change: configuration, code, data, packages, exemptions."""
    reasons = configuration_changes(evidence, rested_on)
    smoke = evidence.run(rested_on.get("smoke_run", ""))
    if smoke is not None:
        reasons += evidence.surroundings(smoke)
        reasons += exemption_changes(smoke, operations(evidence.grants))
    return reasons


def changes_of_surroundings(code_root: str, run: RunEvidence, read: Callable[[Path], str] = digest_file) -> list[str]:
    """Return one sentence for all that changed since the run saw it: files of code or data, packages, the engine."""
    root = Path(code_root)
    return [
        *_file_changes("code", run.part("code").get("files", {}), root, read),
        *_file_changes("data", run.part("data").get("files", {}), root, read),
        *_package_changes(run.part("environment").get("packages", {})),
        *_engine_changes(run.part("code").get("engine_digest")),
    ]


def configuration_changes(evidence: Evidence, rested_on: dict[str, Any]) -> list[str]:
    """Return the keys by which the configuration that holds differs from the one a decision rested on."""
    if not evidence.has_valid_config:
        return ["configuration: an earlier release took it, and this one refuses it"]
    if evidence.config_digest == rested_on["configuration"]:
        return []
    old, new = flatten(rested_on.get("values", {})), flatten(_whole(evidence.version.values))
    keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    named = [f"{key} {old.get(key)!r} -> {new.get(key)!r}" for key in keys[:MOST_NAMED]]
    more = f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else ""
    return [f"configuration: {', '.join(named) or 'changed'}{more}"]


def whole_values(evidence: Evidence) -> dict[str, Any]:
    """Return the configuration that holds with all defaults, as a decision records it."""
    return _whole(evidence.version.values)


def exemption_changes(smoke: RunEvidence, allowed: list[str]) -> list[str]:
    """Return a sentence when the smoke run was made under other exemptions than the owner grants now."""
    used = list(smoke.part("reproducibility").get("exemptions") or [])
    return [] if used == allowed else [f"exemptions: {', '.join(used) or 'none'} -> {', '.join(allowed) or 'none'}"]


def artifact_changes(folder: Path, artifacts: dict[str, str], read: Callable[[Path], str]) -> list[str]:
    """Return one sentence for every artifact of a decision that is missing or differs."""
    reasons = []
    for name, digest in artifacts.items():
        path = folder / name
        if not path.is_file():
            reasons.append(f"artifact: {name} was removed")
        elif read(path) != digest:
            reasons.append(f"artifact: {name} was changed after the gate")
    return reasons


def inherited(run: RunEvidence, smoke: RunEvidence) -> list[str]:
    """Return what a run saw differently from the smoke run that planning rested on.

    Of files beside the samples (pretrained weights, a teacher) those that both name: a search may try others.
    """
    compared = (
        ("data", "data", "fingerprint"),
        ("code", "code", "digest"),
        ("environment", "environment", "packages_digest"),
        ("engine", "code", "engine_digest"),
    )
    different = [name for name, part, key in compared if run.part(part).get(key) != smoke.part(part).get(key)]
    own, planned = run.part("data").get("files", {}), smoke.part("data").get("files", {})
    return different + [name for name in sorted(own.keys() & planned.keys()) if own[name] != planned[name]]


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    return parse_config(values).model_dump(mode="json", exclude={"search"})


def _file_changes(what: str, files: dict[str, str], root: Path, read: Callable[[Path], str]) -> list[str]:
    reasons = []
    for name, digest in files.items():
        path = root / name
        try:
            found = digest_path(path, read)
        except OSError:
            reasons.append(f"{what}: {name} was removed")
            continue
        if found != digest:
            reasons.append(f"{what}: {name} changed")
    return reasons


def _engine_changes(recorded: str | None) -> list[str]:
    if recorded is None or recorded == engine_digest(ENGINE):
        return []
    return ["engine: Trainwright's own files changed"]


def _package_changes(recorded: dict[str, str]) -> list[str]:
    now = installed_packages()
    names = [name for name in sorted(recorded.keys() | now.keys()) if recorded.get(name) != now.get(name)]
    if not recorded or not names:
        return []
    shown = [f"{name} {recorded.get(name, 'absent')} -> {now.get(name, 'absent')}" for name in names[:MOST_NAMED]]
    return [f"environment: {', '.join(shown)}{' …' if len(names) > MOST_NAMED else ''}"]
