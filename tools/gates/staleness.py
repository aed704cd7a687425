"""Changes since a gate passed (PHASE-8): configuration, data, code, environment, evidence, artifacts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from trainwright.tools.environments import UnreachableError, changed_image
from trainwright.tools.gates.overlay import is_of_export
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.ledger import Inspection
from trainwright.tools.owner.grants import operations
from trainwright.trainer.base import download_log
from trainwright.trainer.base.canonical import digest_file, digest_path
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.file_stamps import stamps_below
from trainwright.trainer.base.paths import ENGINE, SKIPPED, folders_below
from trainwright.trainer.config import flatten, parse_config
from trainwright.trainer.data.validation.changes import changes, loosened
from trainwright.trainer.data.validation.expectations import read_expectations
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.environment import engine_digest, hook_files, installed_packages, startup_hooks
from trainwright.trainer.run.evidence import Code, Environment
from trainwright.trainer.run.looked_at import Listing, Opened, OpenedFile
from trainwright.trainer.run.validation import Validation
from trainwright.trainer.user_code.import_record import meaning_of

# Expectations of a project's data: changes since planning's smoke run, and loosened ones before it.


def expectation_changes(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return one sentence for every expectation that changed since a smoke run held the data to it."""
    found = smoke.part(Validation)
    if not found or evidence.config.task is not None:
        return []
    now = _present(evidence)
    if now is None:  # gone or unreadable: the files' digests say so
        return []
    told = changes(found.report.expectations, now)
    return told[:MAX_NAMED] + ([f"{len(told) - MAX_NAMED} more expectations"] if len(told) > MAX_NAMED else [])


def loosened_before(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return what a smoke run's expectations allow that those of the smoke run before it did not."""
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.kind == RunKind.SMOKE]
    before = ids[: ids.index(smoke.id)] if smoke.id in ids else []
    earlier = evidence.run(before[-1]) if before else None
    record = earlier.part(Validation) if earlier is not None else None
    return loosened(record.report.expectations, smoke.part(Validation).report.expectations) if record else []


def _present(evidence: Records) -> dict[str, Any] | None:
    section = evidence.config.data
    try:
        return read_expectations(section.expectations if section else None, evidence.code_root).values()
    except ConfigurationError:
        return None


MAX_NAMED = 5


def changes_since(evidence: Records, rested_on: dict[str, Any], artifacts: dict[str, str]) -> list[str]:
    """Return one sentence for everything a decision depends on that has changed; none means it is fresh."""
    reasons = changes_around(evidence, rested_on)
    for run_id in rested_on.get("runs", []):
        run = evidence.run(run_id)
        reasons += run.differences if run else [f"evidence: the record of run {run_id} is gone"]
    return reasons + artifact_changes(evidence.folder, artifacts, evidence.inspection.digest)


def changes_around(evidence: Records, rested_on: dict[str, Any]) -> list[str]:
    """Return the changes of all that may rightly change: configuration, code, data, packages, exemptions."""
    reasons = configuration_changes(evidence, rested_on)
    smoke = evidence.run(rested_on.get("smoke_run", ""))
    if smoke is not None:
        reasons += evidence.surroundings(smoke)
        reasons += exemption_changes(smoke, operations(evidence.grants))
        reasons += evidence.once(("opened", smoke.id), partial(opened_since, evidence, smoke))
        reasons += expectation_changes(evidence, smoke)
    return reasons


def changes_of_surroundings(code_root: str, run: RunRecords, inspection: Inspection | None = None) -> list[str]:
    """Return one sentence for all that changed since the run saw it: files of code or data, packages, the engine."""
    root, inspection = Path(code_root), inspection or Inspection()
    files = file_changes(root, run, inspection.digest)
    if files and not root.is_dir():
        files = [f"code root: {root} is not there; changes={{'code_root': …}} names the folder where it is now"]
    packages = _package_changes(run.environment, run.imported, inspection)
    return [*files, *packages, *_engine_changes(run.code.engine_digest, inspection)]


def file_changes(root: Path, run: RunRecords, read: Callable[[Path], str] = digest_path) -> list[str]:
    """Return one sentence for every file of code or data under the root that is not as the run saw it."""
    own = _file_changes("code", run.code.files, root, read, run.code.meanings)
    return own + _file_changes("data", run.data.files, root, read)


def changes_without_effect(code_root: str, run: RunRecords, inspection: Inspection) -> list[str]:
    """Return changes since the run that make nothing stale: code of the same meaning, packages it did not import."""
    root = Path(code_root)
    written = [
        f"code: {name} changed in comments, docstrings or formatting alone"
        for name, digest in run.code.files.items()
        if _is_file_with_other(root / name, digest) and _meaning_at(root / name) == run.code.meanings.get(name)
    ]
    if not run.imported:  # then every package counts
        return written
    then, now = run.environment.packages, _packages(run.environment, inspection)
    others = sorted((then.keys() | now.keys()) - set(run.imported))
    return written + [f"{change} (not imported)" for change in _version_changes(then, now, others)]


def configuration_changes(evidence: Records, rested_on: dict[str, Any]) -> list[str]:
    """Return the keys by which the present configuration differs from the one a decision depends on."""
    if rested_on["configuration"] == evidence.config_digest:
        return []
    old, new = flatten(rested_on.get("values", {})), flatten(_whole(evidence.version.values))
    known = [key for key in sorted(old.keys() | new.keys()) if not is_of_export(key)]
    keys = [key for key in known if old.get(key) != new.get(key)]
    named = [f"{key} {old.get(key)!r} -> {new.get(key)!r}" for key in keys[:MAX_NAMED]]
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return [f"configuration: {', '.join(named) or 'changed'}{more}"]


def whole_values(evidence: Records) -> dict[str, Any]:
    """Return the present configuration with all defaults, as a decision records it."""
    return _whole(evidence.version.values)


def exemption_changes(smoke: RunRecords, allowed: list[str]) -> list[str]:
    """Return a sentence when the smoke run was made under other exemptions than the owner grants now."""
    used = smoke.reproducibility.exemptions
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


def inherited(run: RunRecords, smoke: RunRecords) -> list[str]:
    """Return a run's differences from the smoke run that planning depends on.

    Of files beside the samples (pretrained weights, a teacher) those that both name: a search may try others.
    """
    is_other = {
        "data": run.data.fingerprint != smoke.data.fingerprint,
        "code": not _is_planned_code(run.code, smoke.code),
        "engine": run.code.engine_digest != smoke.code.engine_digest,
        "environment": _other_packages(run, smoke),
    }
    different = [name for name, is_so in is_other.items() if is_so]
    own, planned = run.data.files, smoke.data.files
    return different + [name for name in sorted(own.keys() & planned.keys()) if own[name] != planned[name]]


def _is_planned_code(code: Code, planned: Code) -> bool:
    """Whether a run imported the planned code, or none but files of it: another configuration names other ones."""
    if (code.meaning and code.meaning == planned.meaning) or code.digest == planned.digest:
        return True
    forms = planned.forms()
    return bool(code) and all(forms.get(name, set()) & own for name, own in code.forms().items())


def _whole(values: dict[str, Any]) -> dict[str, Any]:
    return parse_config(values).model_dump(mode="json", exclude={"search"})


def _other_packages(run: RunRecords, smoke: RunRecords) -> bool:
    """Whether a package that one of them imported had another version for the other; of any, where that is unknown."""
    own, planned = run.environment, smoke.environment
    if not smoke.imported:
        return own.packages_digest != planned.packages_digest
    return bool(_version_changes(planned.packages, own.packages, sorted({*run.imported, *smoke.imported})))


def _is_file_with_other(path: Path, digest: str) -> bool:
    return path.is_file() and digest_file(path) != digest


def _meaning_at(path: Path) -> str | None:
    try:
        return meaning_of(path.read_bytes())
    except OSError:
        return None


def _file_changes(
    what: str, files: dict[str, str], root: Path, read: Callable[[Path], str], meanings: dict[str, str] | None = None
) -> list[str]:
    """Name files that are gone or have other content; of code, with another meaning."""
    reasons = []
    for name, digest in files.items():
        if download_log.is_remote(name):  # not here: each run compares what it reads with what planning fixed
            continue
        path = root / name
        try:
            found = read(path)
        except OSError:
            reasons.append(f"{what}: {name} was removed")
            continue
        if found != digest and (not meanings or meanings.get(name) != _meaning_at(path)):
            reasons.append(f"{what}: {name} changed")
    return reasons


def _engine_changes(recorded: str | None, inspection: Inspection) -> list[str]:
    def find() -> str:
        inspection.sources.note(*(folder for folder, _, _ in folders_below(ENGINE)))  # an update replaces files in them
        return engine_digest(ENGINE)

    if recorded is None or recorded == inspection.once("engine", find):
        return []
    return ["engine: Trainwright's own files changed"]


def _packages(environment: Environment, inspection: Inspection) -> dict[str, str]:
    if environment.image_digest is not None:
        return environment.packages
    path = tuple(environment.path or sys.path)

    def find() -> dict[str, str]:
        inspection.sources.note(*path)  # a version is part of a folder's name there
        return inspection.recall(("packages", path), path, partial(installed_packages, path))

    return inspection.once(f"packages {path}", find)


def _package_changes(environment: Environment, imported: list[str], inspection: Inspection) -> list[str]:
    """Name changed versions of the packages that the run imported; of all, where the imports are unknown."""
    if environment.image_digest is not None:  # its packages are as they were while it is
        inspection.sources.are_fleeting = True
        asked = partial(_image_change, environment.container_image or "", environment.image_digest)
        image = inspection.once(f"image {environment.container_image}", asked)
        return [f"environment: {image}"] if image else []
    recorded = environment.packages
    now = _packages(environment, inspection) if recorded else {}
    changed = _version_changes(recorded, now, imported or sorted(recorded.keys() | now.keys()))
    hooks = _hooks(tuple(environment.path), inspection)
    others = sorted(name for name in environment.hooks.keys() | hooks if environment.hooks.get(name) != hooks.get(name))
    return [*changed, *(f"environment: {Path(name).name}, run as Python starts, changed" for name in others)]


def _hooks(path: tuple[str, ...], inspection: Inspection) -> dict[str, str]:
    def find() -> dict[str, str]:
        inspection.sources.note(*path, *hook_files(path))
        return startup_hooks(path)

    return inspection.once(f"hooks {path}", find)


def _image_change(recorded: str, digest: str) -> str | None:
    try:
        return changed_image(recorded, digest)
    except UnreachableError:  # which says nothing of the image; whoever starts a run there is told
        return None


def _version_changes(then: dict[str, str], now: dict[str, str], of: list[str]) -> list[str]:
    names = [name for name in of if then.get(name) != now.get(name)]
    if not names:
        return []
    shown = [f"{name} {then.get(name, 'absent')} -> {now.get(name, 'absent')}" for name in names[:MAX_NAMED]]
    return [f"environment: {', '.join(shown)}{' …' if len(names) > MAX_NAMED else ''}"]


# Files of the user's that appeared, or changed, after planning's smoke run, and that a later run opened.
#
# Derived from sealed evidence alone: the listing of the code root at the end of the smoke run, and what each run opened
# and wrote. A file that a recorded run of the project left as it was found is no surprise: a cache, a log.


def unplanned_files(evidence: Records, run: RunRecords, smoke: RunRecords) -> list[str]:
    """Return the names of the files that a run opened, and that planning's smoke run did not find as they were."""
    return _without_left(evidence, run.id, _unplanned(evidence, run, smoke))


def opened_since(evidence: Records, smoke: RunRecords) -> list[str]:
    """Return one sentence for every complete run after a smoke run that opened files which planning had not seen."""
    ids = list(evidence.facts.started)
    later = ids[ids.index(smoke.id) + 1 :] if smoke.id in ids else []
    found = {run_id: _seen_of(evidence, run_id, smoke) for run_id in later if run_id in evidence.facts.seals}
    return [
        f"files: {run_id} opened {', '.join(names[:3])}{' …' if len(names) > 3 else ''}, new or changed since planning"
        for run_id, other in found.items()
        if (names := _without_left(evidence, run_id, other))
    ]


def _seen_of(evidence: Records, run_id: str, smoke: RunRecords) -> dict[str, OpenedFile]:
    """Return the files of which `_unplanned` tells, of a run by its id; none of one that is not complete.

    A search has many runs, most of them unchanged since the last look.
    """

    def look() -> dict[str, OpenedFile]:
        run = evidence.run(run_id)
        if run is None or not run.is_complete or run.directory.specification().snapshot is not None:
            return {}  # an experiment's files are those of its snapshot
        return _unplanned(evidence, run, smoke)

    key = ("opened", evidence.folder, run_id, evidence.facts.seals[run_id].state, smoke.id)
    files = stamps_below(evidence.workspace.run_folder(evidence.name, run_id))
    listing = smoke.directory.artifacts / f"{Listing.file}.json"
    return evidence.inspection.recall(key, [*files, str(listing)], look)


def _unplanned(evidence: Records, run: RunRecords, smoke: RunRecords) -> dict[str, OpenedFile]:
    """Return the files that a run opened and that planning's smoke run did not find as they were."""
    opened, planned = run.part(Opened).files, smoke.part(Opened)
    if run.id == smoke.id or not opened:
        return {}
    listing = evidence.inspection.once(f"listing of {smoke.directory.path}", partial(smoke.part, Listing))
    return {name: file for name, file in opened.items() if not _is_planned(name, file, planned, listing)}


def _without_left(evidence: Records, run_id: str, other: dict[str, OpenedFile]) -> list[str]:
    """Return the names of those files that no earlier run of the project left as they were opened."""
    for earlier in _until(evidence, run_id) if other else ():
        left = earlier.part(Opened).written
        other = {name: file for name, file in other.items() if file.digest is None or left.get(name) != file.digest}
    return sorted(other)


def _is_planned(name: str, file: OpenedFile, planned: Opened, listing: Listing) -> bool:
    """Whether planning's smoke run read or left a file as it was opened later; of others, whether it was there."""
    if not SKIPPED.isdisjoint(PurePosixPath(name).parts):
        return True
    if name in planned.files or name in planned.written:
        seen = planned.files.get(name)
        return file.digest is not None and file.digest in {seen and seen.digest, planned.written.get(name)}
    if name in listing.files:
        return listing.files[name] == file.bytes
    return not listing or listing.is_cut or any(_is_under(name, folder) for folder in listing.unlisted)


def _is_under(name: str, folder: str) -> bool:
    return folder == "." or name.startswith(f"{folder}/")


def _until(evidence: Records, run_id: str) -> Iterator[RunRecords]:
    """Yield the ended runs of the project before this one, the newest first."""
    ids = list(evidence.facts.started)
    for before in reversed(ids[: ids.index(run_id)] if run_id in ids else []):
        earlier = evidence.run(before)
        if earlier is not None and earlier.is_sealed:
            yield earlier
