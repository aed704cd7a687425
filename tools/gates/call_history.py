"""Memory of `next`: a call that failed on the present digests is not proposed again (GATE-7).

Derived from ledger and runs at each call, and stored nowhere. A call is in vain where its outcome is known: it would
return a complete run, fail or be refused for the same cause, or change a key that the run does not use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.cures import goes_with
from trainwright.tools.gates.finals import is_as_asked, is_reused
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.gates.releases import holds_now, other_than_planned
from trainwright.tools.gates.shown import gain
from trainwright.tools.gates.staleness import exemption_changes, opened_since
from trainwright.tools.owner.grants import operations
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import (
    SearchSection,
    TrainingConfig,
    config_digest,
    flatten,
    merge_changes,
    parse_config,
)
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.looked_at import Opened

OUTSIDE = frozenset({"limit", "storage", "out_of_memory", "interrupted"})
"""Failures whose cause may lie outside the digests: such a run is tried once more."""
MAX_FILES = 20_000
MAX_CHARACTERS = 160


def in_vain(evidence: Records, call: NextCall) -> str:
    """Return why a call would be useless on the present digests; empty where it may help the project on."""
    judge = _JUDGES.get(call.tool)
    try:
        return judge(evidence, call.arguments) if judge is not None else ""
    except TrainwrightError:  # a record or a configuration that cannot be read: its check reports it
        return ""


def complete_run(
    evidence: Records, kind: RunKind, config: str, source: str | None = None, max_steps: int | None = None
) -> RunRecords | None:
    """Return the complete run that a plan of this kind would only repeat; None where there is reason to repeat it.

    Reasons are a record that was changed, surroundings that are others now, and a replay that differed.

    Args:
        config: digest of the planned configuration.
    """
    run = evidence.newest(kind, config=config, source=source)
    if run is None and kind is RunKind.FINAL and is_reused(evidence):
        run = evidence.final if evidence.final is not None and evidence.final.row.config_digest == config else None
    if run is None or not run.is_complete or run.directory.specification().max_steps != max_steps:
        return None
    if evidence.served_changes(run):
        return None
    is_other = run.differences or not holds_now(evidence, run) or exemption_changes(run, operations(evidence.grants))
    return None if is_other or _must_be_repeated(evidence, run, kind) else run


def failed_alike(evidence: Records, kind: RunKind, config: str, source: str | None = None) -> RunRecords | None:
    """Return the latest run of this plan where it failed and nothing has changed since; None otherwise."""
    found = list(islice(_latest(evidence, kind, config, source), 2))
    ended = [run for run in found if run.status.state in {RunState.FAILED, RunState.INTERRUPTED}]
    if not ended or ended[0] is not found[0] or not is_unchanged(evidence, ended[0]):
        return None
    if _category(ended[0]) in OUTSIDE and (len(ended) < 2 or _category(ended[1]) not in OUTSIDE):
        return None
    return ended[0]


def is_unchanged(evidence: Records, run: RunRecords) -> bool:
    """Whether the code, data and packages are those that a run met; one that failed may not have listed them all."""
    if evidence.surroundings(run) or exemption_changes(run, operations(evidence.grants)) or _is_reread(evidence, run):
        return False
    if _is_let_through(evidence, run):
        return False
    is_listed = all([run.code.files, run.data.splits])
    evidence.inspection.sources.are_fleeting = True  # as the times of many files
    root = Path(evidence.project.code_root)
    found = list(islice(_files(root, evidence.workspace.path.resolve()), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        return is_listed
    if is_listed:  # code that no training imports counts still: a failed export, or a probe of one, may have met it
        known = {root / name for name in run.code.files}
        found = [(path, written) for path, written in found if path.suffix == ".py" and path not in known]
    began, ended = run.row.created_at.timestamp(), run.status.heartbeat_at
    # what it wrote itself while it ran is no change; code that was edited meanwhile is
    return not any(written > (began if path.suffix == ".py" else max(began, ended)) for path, written in found)


def _is_let_through(evidence: Records, run: RunRecords) -> bool:
    """Whether what the wall refused the run's code has been made since, or the owner has changed the wall."""
    failure = run.status.failure
    if failure is None or "path" not in failure.details:
        return False
    workspace = evidence.workspace
    made = failure.details.get("to_be_made") is True and Path(failure.details["path"]).exists()
    return made or workspace.settings.wall(workspace.path) != run.directory.specification().wall


def _is_reread(evidence: Records, run: RunRecords) -> bool:
    """Whether a file that the run's code opened has another content now, and not the one that the run left."""
    root, opened = Path(evidence.project.code_root), run.part(Opened)
    known = {name: {file.digest, opened.written.get(name)} for name, file in opened.files.items() if file.digest}
    return any(
        not (root / name).is_file() or evidence.inspection.digest(root / name) not in digests
        for name, digests in known.items()
    )


def ignored(evidence: Records, keys: Mapping[str, Any] | list[str]) -> list[str]:
    """Return those of the keys that the newest run of the configuration reported as ones it makes no use of."""
    run = evidence.baseline or evidence.smoke
    unused = (run.resolved.keys_without_effect or run.resolved.ignored_keys or []) if run is not None else []
    return [key for key in keys if any(key == name or key.startswith(f"{name}.") for name in unused)]


def _start(evidence: Records, arguments: dict[str, Any]) -> str:
    if arguments.get("changes") or arguments.get("template"):
        return ""
    kind = RunKind(arguments["kind"])
    if kind not in {RunKind.SMOKE, RunKind.BASELINE, RunKind.FINAL}:
        return ""
    values = evidence.final_values if kind is RunKind.FINAL else None
    digest = evidence.config_digest if values is None else config_digest(parse_config(values))
    return _of_runs(evidence, kind, digest)


def _repeat(kind: RunKind) -> Callable[[Records, dict[str, Any]], str]:
    def judge(evidence: Records, arguments: dict[str, Any]) -> str:
        source = evidence.run(arguments["run_id"]) if arguments.get("run_id") else evidence.final
        return _of_runs(evidence, kind, source.row.config_digest, source.id) if source is not None else ""

    return judge


def _of_runs(evidence: Records, kind: RunKind, digest: str, source: str | None = None) -> str:
    bound = _smoke_steps(evidence) if kind is RunKind.SMOKE else None
    complete = complete_run(evidence, kind, digest, source, bound)
    if complete is not None:
        return f"{complete.id} is complete, and nothing has changed since"
    failed = failed_alike(evidence, kind, digest, source)
    return f"nothing has changed since {failed.id} {_told(failed)}" if failed is not None else ""


def _smoke_steps(evidence: Records) -> int | None:
    return evidence.smoke.directory.specification().max_steps if evidence.smoke is not None else None


def _configure(evidence: Records, arguments: dict[str, Any]) -> str:
    changes = arguments.get("changes")
    if not changes or set(arguments) - {"project", "changes", "reason"}:
        return ""
    if unused := ignored(evidence, list(changes)):
        return f"the run makes no use of {', '.join(unused)}" if len(unused) == len(changes) else ""
    config = merge_changes(changes, evidence.version.values, argument="changes").config
    digest = config_digest(config)
    if digest == evidence.config_digest:
        return "the configuration has these values already" if config.exports_as(evidence.config) else ""
    held = [number for number, version in evidence.facts.configurations.items() if version.digest == digest]
    tried = any(start.config_digest == digest for start in evidence.facts.started.values())
    if held and tried:
        return f"version {held[-1]} had these values, was tried and left"
    return _measured_worse(evidence, config)


def _measured_worse(evidence: Records, config: TrainingConfig) -> str:
    """Return which ablation of these values, or of less in their direction, was worse than the baseline; or ''."""
    metric, baseline = evidence.goal_metric, evidence.baseline
    value = baseline.best_value(metric) if baseline is not None else None
    before, wanted = (flatten(one.model_dump(mode="json")) for one in (evidence.config, config))
    changed = {key: one for key, one in wanted.items() if before.get(key) != one}
    for run_id, start in evidence.facts.started.items():
        run = evidence.run(run_id) if start.kind == RunKind.ABLATION and start.study is None else None
        own = run.best_value(metric) if run is not None and run.is_complete else None
        if run is None or own is None or value is None or gain(evidence.goal, own) >= gain(evidence.goal, value):
            continue
        after = flatten(run.directory.specification().config.model_dump(mode="json"))
        if after == wanted or goes_with(changed, before, after):
            return f"{run.id} measured it: {metric} {own:.4g}, worse than the baseline's {value:.4g}"
    return ""


def _tune(evidence: Records, arguments: dict[str, Any]) -> str:
    given = arguments.get("search")
    if given and {"ablation", "experiment"} & given.keys():  # what it has made is taken over
        return ""
    section = SearchSection.model_validate(given) if given else evidence.config.search
    if section is None:
        return ""
    unused = ignored(evidence, list(section.space))
    if len(unused) == len(section.space):
        return f"the run makes no use of {', '.join(unused)}"
    query = select(Study).where(Study.project == evidence.name, Study.base_config_digest == evidence.config_digest)
    ended = [study for study in evidence.session.scalars(query) if study.state == "completed" and not study.is_ablation]
    same = [study for study in ended if section.is_answered_by(study.search)]
    return f"{same[-1].id} has searched just that" if same else ""


def _look(evidence: Records, arguments: dict[str, Any]) -> str:
    run = evidence.run(arguments.get("run_id", ""))
    return f"{run.id} has ended" if run is not None and run.sealed is not None and run.status.state.is_ended else ""


def _diagnose(evidence: Records, arguments: dict[str, Any]) -> str:
    run = evidence.baseline
    if run is None or not run.is_complete or arguments.get("run_id") not in {None, run.id} or arguments.get("fix"):
        return ""
    bodies = [body for _, body in evidence.entries("diagnosis") if body["run_id"] == run.id]
    changed = [name for name, digest in bodies[-1]["artifacts"].items() if evidence.artifact_digest(name) != digest] \
        if bodies else [""]  # fmt: skip
    return "" if changed else f"{run.id} was diagnosed, and the report stands"


def _status(evidence: Records, arguments: dict[str, Any]) -> str:  # noqa: ARG001 - the signature of all of them
    return "it only says again where the project stands"


_JUDGES: dict[str, Callable[[Records, dict[str, Any]], str]] = {
    "start_training": _start,
    "verify_reproducibility": _repeat(RunKind.REPLAY),
    "export_model": _repeat(RunKind.EXPORT),
    "configure": _configure,
    "start_tuning": _tune,
    "run_status": _look,
    "diagnose_run": _diagnose,
    "project_status": _status,
}


def _must_be_repeated(evidence: Records, run: RunRecords, kind: RunKind) -> bool:
    """Whether a gate needs another one: other evidence than planning's, or weights that did not come out again.

    Of a smoke run, whether it fixed no rows, or a later run opened a file that it did not find.
    """
    planned = evidence.smoke is not None and evidence.smoke.is_complete
    if kind in {RunKind.BASELINE, RunKind.FINAL} and planned and other_than_planned(evidence, run):
        return True
    if kind is RunKind.SMOKE and (run.lacks_rows or opened_since(evidence, run)):
        return True
    if kind is RunKind.REPLAY:
        source = evidence.run(run.row.source_run or "")
        return source is None or not compared(source, run).is_identical
    replay = evidence.newest(RunKind.REPLAY, source=run.id) if kind is RunKind.FINAL else None
    return replay is not None and replay.is_complete and not compared(run, replay).is_identical


def _latest(evidence: Records, kind: RunKind, config: str, source: str | None) -> Iterator[RunRecords]:
    """Give the plan's runs, the latest first."""
    for run_id, start in reversed(evidence.facts.started.items()):
        same = (start.kind, start.study) == (kind.value, None) and start.config_digest == config
        run = evidence.run(run_id) if same and source in {None, start.source_run} else None
        if run is not None and (kind is not RunKind.EXPORT or is_as_asked(evidence, run)):
            yield run


def _category(run: RunRecords) -> str:
    failure = run.status.failure
    return failure.category if failure is not None else run.status.state.value


def _told(run: RunRecords) -> str:
    failure = run.status.failure
    message = failure.message if failure is not None else ""
    return f"{run.status.state.value}: {message[:MAX_CHARACTERS].rstrip('.')}" if message else run.status.state.value


def _files(root: Path, workspace: Path) -> Iterator[tuple[Path, float]]:
    """Give when each file was written last; hidden folders, compiled files and workspaces left out."""
    for path in root.iterdir() if root.is_dir() else ():
        is_workspace = (path / "settings.yaml").is_file() or path.resolve() == workspace
        if path.name.startswith(".") or path.name == "__pycache__" or is_workspace:
            continue
        try:
            if path.is_dir() and not path.is_symlink():
                yield from _files(path, workspace)
            else:
                yield path, path.stat().st_mtime
        except OSError:
            continue


# Replays of a final run: the one that counts, and those before it that differed (REPRO-5).
#
# The newest completed replay counts. Repeating until one is identical has the others reported beside it.

DOCUMENT = "reproducibility/verification.md"


class Replayed(NamedTuple):
    """One completed replay beside its source."""

    is_identical: bool
    """The last weights, every recorded metric and the best checkpoint, and the record is as it was sealed."""
    measured: str
    relative_difference: float | None
    """Norm of the difference of the last weights over the source's norm; None when it could not be formed."""


def compared(source: RunRecords, replay: RunRecords) -> Replayed:
    """Return the result of a completed replay's comparison."""
    found = replay.comparison
    same_weights = found.identical is True and found.source_weights_digest == source.summary.weights_digest
    same = same_weights and found.metrics_identical is True and not replay.differences
    shipped = _best_weights(source)
    same_best = shipped is not None and shipped == _best_weights(replay)
    causes = "; ".join(map(str, [*replay.differences, *(found.causes or [])][:2]))
    share = found.relative_difference
    far = "different" if share is None else f"different by {share:.1e} of their norm"
    text = f"{found.tensors or 0} tensors, " + ("identical" if same else f"{far}: {causes}")
    text = f"{text}; best checkpoint {'identical' if same_best else 'DIFFERENT'}"
    return Replayed(same and same_best, text, share)


def others_that_differed(evidence: Records) -> list[str]:
    """Return the final run's other completed replays that did not come out identical, in order of their start."""
    final, counting = evidence.final, evidence.replay
    if final is None or counting is None:
        return []
    others = [
        run_id
        for run_id, start in evidence.facts.started.items()
        if (start.kind, start.source_run) == (RunKind.REPLAY, final.id)
        and run_id != counting.id
        and not start.permit.get("is_short")
        and (seal := evidence.facts.seals.get(run_id)) is not None
        and seal.state == RunState.COMPLETED
    ]
    found = ((run_id, evidence.run(run_id)) for run_id in others)
    return [run_id for run_id, run in found if run is None or not compared(final, run).is_identical]


def after_a_difference(evidence: Records, source: RunRecords, replay: RunRecords) -> NextCall:
    """Return a call that changes something: the same replay again would only be another draw."""
    if replay.differences:  # nothing was measured: its record was changed
        return evidence.call("verify_reproducibility", "the record of that replay was changed", run_id=source.id)
    if not evidence.config.reproducibility.deterministic:
        why = f"non-deterministic operations were allowed ({DOCUMENT}); every gate anew"
        return evidence.call("configure", why, changes={"reproducibility.deterministic": True})
    facts = ", ".join(sorted(replay.comparison.fingerprint_differences))
    if facts:
        return evidence.call("start_training", f"the final run anew, as things are now: {facts}", kind="final")
    if source.status.attempt > 1:  # measured: the source was resumed, and the replay was not
        why = (
            f"the source was resumed, and lost state of your code: keep it in `context.state` ({DOCUMENT}), then every"
        )
        return evidence.call("start_training", f"{why} gate anew", kind="smoke")
    why = f"{DOCUMENT} reads the difference: seed the code first, then every gate anew"
    return evidence.call("start_training", why, kind="smoke")


def _best_weights(run: RunRecords) -> str | None:
    """Return the digest of the best checkpoint's weights, which the export ships."""
    best = [record for record in list_checkpoints(run.directory) if "best" in record.tags]
    if not best:
        return None
    manifest = json.loads((best[0].path / "manifest.json").read_text(encoding="utf-8"))
    base = manifest.get("frozen_base", {}).get("digest", "")  # of weights that the checkpoint names only
    return f"{manifest['files']['model.safetensors']['digest']} {base}".strip()
