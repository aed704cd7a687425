"""Planning: the reproducibility checklist, measured in a smoke run of the real model on the real data."""

from __future__ import annotations

import math
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.carry_over import carry_over_call
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leakage import beyond_chance
from trainwright.tools.gates.outcomes import (
    Outcome,
    check,
    failed,
    not_applicable,
    passed,
    passed_if,
    passed_with_exemption,
)
from trainwright.tools.gates.relocated_root import point_to_moved_root
from trainwright.tools.gates.rows_moved import Grown, keeps_test, rows_since
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import opened_since
from trainwright.tools.limits import limits_under
from trainwright.tools.owner.grant import ALIKE_SAMPLES, MISSING_GIT
from trainwright.tools.owner.grants import operations
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import flatten
from trainwright.trainer.metrics import BUILT_IN, built_in_of
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import AlikeSamples

HELD_OUT = ("validation", "test")
MAX_HELD_OUT = 0.6
"""Of the samples, for validation and test together, that a remedy proposes: some must be left to train on."""


@check("planning.configuration_valid")
def configuration_valid(evidence: Evidence, line: CheckLine) -> Outcome:
    """The present configuration fits the schema."""
    try:
        digest = evidence.config_digest
    except ConfigurationError as error:
        changes = error.details.get("changes") or {}
        return failed(
            error.message, line.text, evidence.call("configure", "correct the configuration", changes=changes)
        )
    return passed(f"version {evidence.version.number}, {digest[:19]}…", "a valid configuration")


@check("planning.goal_fixed")
def goal_fixed(evidence: Evidence, line: CheckLine) -> Outcome:
    """The goal's metric can be computed on these validation rows, and the run selects by it."""
    selection, goal = evidence.config.selection, evidence.project.goal
    if evidence.smoke is not None and (problem := evidence.smoke.summary.problems.get(goal["metric"])):
        measured = f"{goal['metric']} cannot be computed on validation: {problem}"
        return failed(measured, evidence.goal_text, _computable(evidence, evidence.smoke))
    changes = {"selection": {"metric": goal["metric"], "direction": goal["direction"]}}
    remedy = evidence.call("configure", "select checkpoints by the goal's metric", changes=changes)
    same = selection.metric == goal["metric"] and selection.direction == goal["direction"]
    fixed = f"selection by {selection.metric} ({selection.direction}); goal fixed at the project's creation"
    return passed_if(same, fixed, evidence.goal_text, remedy)


@check("planning.limits_set")
def limits_set(evidence: Evidence, line: CheckLine) -> Outcome:
    """The project's limits are within those of the workspace's owner, and ended runs have left some time."""
    limits = limits_under(evidence.settings, evidence.project.limits, evidence.grants)
    used = sum(seal.used.get("wall_clock_seconds", 0.0) for seal in evidence.facts.seals.values())
    measured = (
        f"{used:.0f} of {limits.project_wall_clock_seconds:.0f} s used; at most {limits.gpu_hours:g} GPU hours, "
        f"{limits.trials} trials, {limits.disk_bytes} bytes"
    )
    remedy = evidence.call("project_status", "shows what is used and left; only the owner raises a limit")
    required = "within the owner's settings.yaml, and time left"
    return passed_if(used < limits.project_wall_clock_seconds, measured, required, remedy)


@check("planning.smoke_run_passed")
def smoke_run_passed(evidence: Evidence, line: CheckLine) -> Outcome:
    """A few steps of the real model on the real data went through."""
    required = f"a completed smoke run of at least {line.threshold:.0f} steps"
    run = evidence.smoke
    if run is None:
        return failed("no smoke run of this configuration", required, evidence.start(RunKind.SMOKE))
    steps, failure = run.summary.steps if run.summary else run.status.step, run.status.failure
    against = [*run.differences, *evidence.surroundings(run), *opened_since(evidence, run)]
    enough = run.is_complete and steps >= (line.threshold or 1) and not against
    came_to = f"{run.status.state.value}, {steps} steps" + (f": {failure.message[:200].rstrip('.')}" if failure else "")
    measured = "; ".join([came_to, *against[:2]])
    remedy = _again(evidence) if run.is_complete else run.next_call()
    return passed_if(enough, measured, required, _fixed_elsewhere(evidence, run) or remedy)


@check("planning.seeds_probed")
def seeds_probed(evidence: Evidence, line: CheckLine) -> Outcome:
    """Every random generator gave the same draws twice in the worker."""
    run = evidence.smoke
    if run is None or not run.reproducibility.probe.draws_repeat:
        return _needs_smoke(evidence, "no probe", line.text)
    wrong = sorted(name for name, repeats in run.reproducibility.probe.draws_repeat.items() if repeats is False)
    measured = f"seed {run.reproducibility.seed}; " + (f"differ: {', '.join(wrong)}" if wrong else "all repeat")
    return passed_if(not wrong, measured, "the same draws twice from every generator", _again(evidence))


@check("planning.determinism_probed")
def determinism_probed(evidence: Evidence, line: CheckLine) -> Outcome:
    """Deterministic mode was on, and an operation known to be non-deterministic was refused."""
    record = evidence.smoke.reproducibility if evidence.smoke is not None else None
    if not record:
        return _needs_smoke(evidence, "no probe", line.text)
    required = "deterministic algorithms on; a non-deterministic operation refused"
    on = bool(record.settings.get("deterministic_algorithms"))
    refused = record.probe.nondeterministic_operation_refused
    remedy = evidence.call(
        "configure", "switch deterministic operation on", changes={"reproducibility.deterministic": True}
    )
    used, allowed = record.exemptions, operations(evidence.grants)
    measured = f"deterministic: {on}; operation refused: {refused}"
    if used != allowed:
        text = f"exempted in the run: {', '.join(used) or 'none'}; by the owner: {', '.join(allowed) or 'none'}"
        return failed(f"{measured}; {text}", required, _again(evidence))
    if on and used and refused is not False:
        return passed_with_exemption(f"{measured}; exempted by the owner: {', '.join(used)}", required)
    if on and refused is None:
        return not_applicable(f"no such operation on this device: {record.probe.reason or ''}", required)
    return passed_if(on and bool(refused), measured, required, remedy)


@check("planning.environment_captured")
def environment_captured(evidence: Evidence, line: CheckLine) -> Outcome:
    """The packages were recorded; those that the engine uses, and then the user's code in the smoke run, import."""
    run = evidence.smoke
    if run is None or not run.environment:
        return _needs_smoke(evidence, "not captured", line.text)
    failures, count = run.environment.import_failures, len(run.environment.packages)
    text = f"{', '.join(run.environment.import_tested)} import together"
    if run.is_complete:
        text += ", and with them what the smoke run's code imports"
    measured = f"{count} packages recorded; " + (f"fail to import: {', '.join(failures)}" if failures else text)
    required = "all recorded; those that the engine and the code use import together"
    return passed_if(count > 0 and not failures, measured, required, _again(evidence))


@check("planning.data_fingerprinted")
def data_fingerprinted(evidence: Evidence, line: CheckLine) -> Outcome:
    """Every split has a content fingerprint and shares no sample with another, nor altered copies."""
    run = evidence.smoke
    if run is None or not run.data:
        return _needs_smoke(evidence, "not fingerprinted", line.text)
    record, grown = run.data, rows_since(evidence, run)
    marked = bool(record.splits) and all(split.fingerprint for split in record.splits.values())
    shared = "disjoint" if record.disjoint else f"{record.shared_samples} samples shared between splits"
    shared += f" ({'; '.join(map(_told_shared, record.shared_examples[:3]))})" * bool(record.shared_examples)
    read = "of a sample of each large split" if record.sampled else "of every sample"
    measured, required = f"fingerprints {read}; {shared}", "one a split, no sample shared or copied with changes"
    if not (marked and record.disjoint):
        whys = ("return splits that share no sample", "remove the samples that stand in two splits", APART)
        return failed(measured, required, _again_on(evidence, *whys))
    measured += f"; {grown}" if grown is not None else ""
    if grown is not None and not keeps_test(evidence, grown, record.split):
        return failed(measured, "no row in train that an earlier plan tested on", _kept_apart(evidence, grown))
    alike = beyond_chance(record.alike_samples, line.threshold or math.inf, line.most or math.inf)
    if not alike:
        return passed(measured, required)
    measured += "; " + "; ".join(map(_told_alike, alike))
    if any(grant.kind == "exemption" and grant.name == ALIKE_SAMPLES for grant in evidence.grants):
        return passed_with_exemption(f"{measured}; exempted by the owner", required)
    return failed(measured, required, _without_copies(evidence, alike[0]))


@check("planning.data_volume")
def data_volume(evidence: Evidence, line: CheckLine) -> Outcome:
    """Every split is large enough to be meaningful, and the total is no slip of a generator."""
    run = evidence.smoke
    least, most = line.threshold or 1, line.most or math.inf
    required = f"train, validation and test of at least {least:.0f} samples, at most {most:.0f} in all"
    if run is None or not run.data:
        return _needs_smoke(evidence, "not counted", required)
    sizes = run.data.sizes
    different = {name: one.size if one.different is None else one.different for name, one in run.data.splits.items()}
    copied = [name for name, size in sizes.items() if different[name] < least <= size]
    measured = ", ".join(
        f"{name} {n}" + f" ({different[name]} different)" * (name in copied) for name, n in sizes.items()
    )
    if sum(sizes.values()) > most:
        return failed(measured, required, _again_on(evidence, "return fewer samples", "use fewer samples"))
    if copied:
        return failed(measured, required, _again_on(evidence, "return different samples", "give different samples"))
    enough = {"train", "validation"} <= sizes.keys() and all(size >= least for size in sizes.values())
    return passed_if(enough, measured, required, _fix_volume(evidence, sizes, least))


@check("planning.code_captured")
def code_captured(evidence: Evidence, line: CheckLine) -> Outcome:
    """The user's imported files were digested; their git state is recorded where there is one."""
    run = evidence.smoke
    if run is None or not run.code:
        return _needs_smoke(evidence, "not captured", line.text)
    count, git = len(run.code.files), run.environment.git
    if not count:
        return not_applicable("built-in model and data only", "digests of the user's imported files")
    state = f"git {str(git.commit)[:10]}{' with changes' if git.dirty else ''}" if git else "no git"
    measured = f"{count} file{'s' * (count != 1)}, {str(run.code.digest)[:19]}…, {state}"
    if git or not evidence.settings.require_git:
        return passed(measured, "digests of the user's files")
    required = "digests of the user's files, in a git repository as the owner demands"
    if any(grant.kind == "exemption" and grant.name == MISSING_GIT for grant in evidence.grants):
        return passed_with_exemption(f"{measured}; exempted by the owner", required)
    remedy = evidence.call("configure", "or put the code under git", ask_owner={"exemption": MISSING_GIT})
    return failed(measured, required, remedy)


def _computable(evidence: Evidence, run: RunEvidence) -> NextCall:
    """Name what lets the goal's metric be computed, and metrics of the same kind that can be."""
    known = built_in_of(evidence.goal_metric)
    tasks, name = (known.tasks, known.name) if known is not None else ((), "")
    others = [own for own in BUILT_IN if BUILT_IN[own].tasks == tasks and own not in {name, *run.summary.problems}]
    rows = "bring validation rows of which this is not so (another split, more rows), then measure again"
    why = f"{rows}; or create_project with a goal in another metric: {', '.join(others[:3])}"
    return evidence.call("start_training", why, kind=RunKind.SMOKE.value)


def _kept_apart(evidence: Evidence, grown: Grown) -> NextCall:
    """Name the call after which rows stay in their splits: those of before, or as the data grow."""
    section = evidence.config.data.split if evidence.config.data is not None else None
    if not (grown.moved.new or grown.moved.gone):
        before, now = _data_of(evidence, grown.since), flatten(evidence.config.model_dump(mode="json")["data"] or {})
        keys = sorted(key for key in before.keys() | now.keys() if before and before.get(key) != now.get(key))
        of_split = [key for key in keys if key.startswith("split.")]
        changes = {f"data.{key}": before.get(key) for key in of_split or keys}
        what = (
            f"the model was evaluated on test rows of {grown.since}, so they stay out of train; rows that are divided "
            "otherwise are another project's"
        )
        if changes:
            return evidence.call("configure", what, changes=changes)
        return evidence.call("project_status", f"{what}: put back what else divided them so (the loss, your own code)")
    if section is None or evidence.config.task is not None:
        return _again_on(evidence, *["keep the earlier test rows out of train: divide by a hash of each row"] * 2)
    columns = {key: None for key in ("smiles", "column", "time") if getattr(section, key) is not None}
    changes = {"data.split.by": "hash", **{f"data.split.{key}": value for key, value in columns.items()}}
    return evidence.call("configure", "from then on rows stay in their splits as the data grow", changes=changes)


def _data_of(evidence: Evidence, run_id: str) -> dict[str, Any]:
    """Return the data section of a run's configuration by dotted key; empty where it is of no use here."""
    run = evidence.run(run_id)
    config = run.directory.specification().config if run is not None else None
    return flatten(config.model_dump(mode="json")["data"] or {}) if config is not None else {}


def _told_shared(found: dict[str, int]) -> str:
    return " is ".join(f"row {row} of {split}" for split, row in found.items())


def _told_alike(found: AlikeSamples) -> str:
    first, second = found.splits
    return f"{found.alike} samples of {first} almost equal one of {second} (and {found.near} another of {first})"


def _without_copies(evidence: Evidence, found: AlikeSamples) -> NextCall:
    first, second = found.splits
    named = ", ".join(f"{one} and {other}" for one, other in found.examples)
    asking = evidence.call("configure", "", ask_owner={"exemption": ALIKE_SAMPLES})
    what = f"keep copies of {second} out of {first} (samples {named})"
    else_ask = f"; where they are none, {asking} asks the owner"
    plain = f"{what}{else_ask}"
    return _again_on(evidence, plain, plain, f"{what}: {APART}{else_ask}")


APART = (
    "before the trainer is made, `known = {key(row) for row in eval_dataset}` and `train_dataset = "
    "train_dataset.filter(lambda row: key(row) not in known)`, key being what tells rows apart: the text in lower "
    "case, without spaces and digits where copies were altered"
)
"""How the data sets of a trainer, which are the user's code, are kept apart."""


def _again_on(evidence: Evidence, of_the_task: str, of_the_data: str, of_the_trainer: str = "") -> NextCall:
    what = of_the_task if evidence.config.task is not None else of_the_data
    if of_the_trainer and evidence.config.trainer is not None:
        what = f"in {evidence.config.trainer.use.partition(':')[0]}, {of_the_trainer}"
    return evidence.call("start_training", f"{what}, then measure again", kind=RunKind.SMOKE.value)


def _fix_volume(evidence: Evidence, sizes: dict[str, int], least: float) -> NextCall:
    changes = None if evidence.config.task is not None else _larger_shares(evidence, sizes, least)
    if changes is None:
        few = f"add samples ({sum(sizes.values())} are too few for three splits of {least:.0f})"
        return _again_on(evidence, "return `validation` and `test` from build, large enough", few)
    return evidence.call("configure", "give every split enough samples", changes=changes)


def _larger_shares(evidence: Evidence, sizes: dict[str, int], least: float) -> dict[str, float] | None:
    """Return the shares that give each held-out split enough of these samples; None when none would."""
    split = evidence.config.data.split if evidence.config.data is not None else None
    share = math.ceil(120 * least / max(sum(sizes.values()), 1)) / 100  # a fifth more, for rounding within classes
    held = {name: share if sizes.get(name, 0) < least else getattr(split, name, share) for name in HELD_OUT}
    same = split is not None and all(getattr(split, name) == value for name, value in held.items())
    if split is None or same or sum(held.values()) > MAX_HELD_OUT:
        return None
    return {f"data.split.{name}": value for name, value in held.items()}


def _needs_smoke(evidence: Evidence, measured: str, required: str) -> Outcome:
    run = evidence.smoke
    return failed(measured, required, run.next_call() if run and not run.is_complete else evidence.start(RunKind.SMOKE))


def _fixed_elsewhere(evidence: Evidence, run: RunEvidence) -> NextCall | None:
    """Name the call that makes a stale plan fresh without measuring it again, where there is one."""
    return point_to_moved_root(evidence, run) or (carry_over_call(evidence) if run.is_complete else None)


def _again(evidence: Evidence) -> NextCall:
    return evidence.call(
        "start_training", "measure again: the last smoke run does not hold any more", kind=RunKind.SMOKE.value
    )
