"""Baseline: one complete run, recorded completely. Its checks apply to the final run too."""

from __future__ import annotations

import math
from collections.abc import Callable

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed, passed_if
from trainwright.tools.gates.releases import other_than_planned
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.run import RunKind

LOSS_KEYS = ("train/loss", "validation/loss")
MUCH_WAITING = 0.3
SHORT_SECONDS = 60.0
SMALL_PARAMETERS = 10_000_000
STANDARD_MINUTES = ProjectLimits().baseline_minutes
ROOM = 0.9
"""Share of a time limit that a shortened run is planned to take."""


RunCheck = Callable[["Evidence", "RunEvidence | None", RunKind], Outcome]


def of_both_runs(name: str) -> Callable[[RunCheck], RunCheck]:
    """Register a function as a check of the baseline run, and of the final run in the last phase."""

    def register(function: RunCheck) -> RunCheck:
        check(f"baseline.{name}")(lambda evidence, line: function(evidence, evidence.baseline, RunKind.BASELINE))
        check(f"finalization.{name}")(lambda evidence, line: function(evidence, evidence.final, RunKind.FINAL))
        return function

    return register


@of_both_runs("run_completed")
def run_completed(evidence: Evidence, run: RunEvidence | None, kind: RunKind) -> Outcome:
    """Check that a run of the kind ended by itself and that its record is as it was sealed."""
    required = f"a completed {kind.value} run whose record is unchanged"
    if run is None:
        return failed(f"no {kind.value} run of this configuration", required, evidence.start(kind))
    if not run.is_complete:
        return failed(f"{run.id} is {run.status.state.value}", required, run.next_call())
    if (bound := run.directory.specification().max_steps) is not None:
        return failed(f"{run.id} was cut short at {bound} steps", required, evidence.start(kind))
    measured = f"{run.id} completed ({run.summary.stop_reason})"
    return passed_if(not run.differences, "; ".join([measured, *run.differences[:2]]), required, evidence.start(kind))


@of_both_runs("same_evidence")
def same_evidence(evidence: Evidence, run: RunEvidence | None, kind: RunKind) -> Outcome:
    """Check that a run saw the data, code and packages that the planning gate depends on."""
    required = "the data, code and packages of the planning gate"
    if run is None or evidence.smoke is None:
        return failed("no run to compare", required, evidence.start(kind))
    different = other_than_planned(evidence, run)
    measured = f"differs in {', '.join(different)}" if different else "identical digests"
    return passed_if(not different, measured, required, evidence.start(kind))


@of_both_runs("losses_finite")
def losses_finite(evidence: Evidence, run: RunEvidence | None, kind: RunKind) -> Outcome:
    """Check that every recorded loss is a finite number."""
    required = "every recorded loss finite"
    if run is None:
        return failed("no run", required, evidence.start(kind))
    store = run.directory.metrics()
    with store.reading():
        recorded = {key: store.count(key) for key in LOSS_KEYS}
        bad = {key: len(store.non_finite(key)) for key in LOSS_KEYS}
    measured = ", ".join(f"{key}: {recorded[key]} recorded, {bad[key]} not finite" for key in LOSS_KEYS)
    skipped = run.summary.non_finite_steps
    sound = all(recorded.values()) and not any(bad.values()) and not skipped
    if not run.is_complete:
        return passed_if(sound, measured, required, run.next_call())
    if all(recorded.values()):
        return passed_if(sound, measured, required, _lower_rate(evidence, run))
    return failed(f"{measured}: the code of the task must give both losses", required, None)


def _lower_rate(evidence: Evidence, run: RunEvidence) -> NextCall:
    held = run.directory.specification().config.optimizer.rate()
    why = "diagnostics/nan_loss.md: the first cause to try; every gate anew"
    changes = {"training.clip_norm": 1.0} if held is None else {held[0]: float(f"{held[1] / 10:.3g}")}
    return evidence.call("configure", why, changes=changes)


@of_both_runs("checkpoints_verified")
def checkpoints_verified(evidence: Evidence, run: RunEvidence | None, kind: RunKind) -> Outcome:
    """Check that the best and last checkpoints exist and that every checkpoint matches its digests."""
    required = "best and last checkpoints saved, digests verified"
    if run is None:
        return failed("no run", required, evidence.start(kind))
    tags = run.kept_tags
    whole = {"best", "last"} <= tags and not run.checkpoint_problems
    measured = f"tags {', '.join(sorted(tags)) or 'none'}; {len(run.checkpoint_problems)} problems"
    remedy = evidence.start(kind) if run.is_complete else run.next_call()
    last = run.summary.final.get(evidence.goal_metric)
    if "best" not in tags and last is not None and not math.isfinite(last):
        measured += f"; no epoch is the best, for {evidence.goal_metric} was {last}"
        remedy = evidence.call(
            "start_training", f"let {evidence.goal_metric} be a finite number, then", kind=kind.value
        )
    return passed_if(whole, "; ".join([measured, *run.checkpoint_problems[:1]]), required, remedy)


@check("baseline.gpu_utilisation")
def gpu_utilisation(evidence: Evidence, line: CheckLine) -> Outcome:
    """The GPUs of a run on GPUs were used; of one on the CPU, processor use and waiting for data are recorded instead.

    Too little use is a warning with its reason; it closes the gate below the least that the project's limits ask for.
    """
    required = f"mean GPU utilisation > {line.threshold:.0f} %"
    run = evidence.baseline
    if run is None:
        return failed("no run", required, evidence.start(RunKind.BASELINE))
    gpu = run.summary.gpu_percent_mean if run.resolved.device != "cpu" else None
    if gpu is None:
        cpu, wait = run.summary.cpu_percent_mean, run.summary.data_wait_fraction
        shown = ("not sampled" if cpu is None else f"{cpu:.0f} %", "unknown" if wait is None else f"{100 * wait:.1f} %")
        return not_applicable(f"no GPU; CPU {shown[0]} of the allowed cores, waiting for data {shown[1]}", required)
    used = f"{gpu:.0f} % over {run.summary.gpus_sampled} GPU(s)"
    least = evidence.limits.gpu_utilisation_percent
    if gpu < least:
        remedy = evidence.call("diagnose_run", "see what keeps the GPU waiting", run_id=run.id)
        return failed(used, f"at least {least:.0f} %, by the project's limits", remedy)
    return passed(used if gpu > (line.threshold or 0) else f"{used}: a warning, {_idle_because(run)}", required)


def _idle_because(run: RunEvidence) -> str:
    """Name the cause of low GPU utilisation; a small model or a short run explains it."""
    parameters, seconds = run.resolved.parameters, run.summary.train_seconds
    if (waited := run.summary.data_wait_fraction or 0.0) > MUCH_WAITING:
        return f"{100 * waited:.0f} % of the time went by waiting for data (diagnostics/slow_data_loading.md)"
    if seconds < SHORT_SECONDS:
        return f"the run took {seconds:.0f} s, too short to fill a GPU"
    if parameters < SMALL_PARAMETERS:
        return f"the model is small ({parameters:,} parameters); the CPU or a smaller GPU is cheaper, and that is fine"
    return "diagnostics/resource_inefficiency.md says what may help"


@check("baseline.within_budget")
def within_budget(evidence: Evidence, line: CheckLine) -> Outcome:
    """The baseline is the fast run: its training time stays under the project's limit, by default the threshold."""
    limit = evidence.limits.baseline_minutes
    allowed = line.threshold or limit if limit == STANDARD_MINUTES else limit
    required = f"at most {allowed:g} minutes of training"
    run = evidence.baseline
    if run is None:
        return failed("no run", required, evidence.start(RunKind.BASELINE))
    minutes = run.summary.train_seconds / 60
    if minutes <= allowed:
        return passed(f"{minutes:.1f} minutes", required)
    return failed(f"{minutes:.1f} minutes", required, _shorter(evidence, run, allowed, minutes))


def _shorter(evidence: Evidence, run: RunEvidence, allowed: float, minutes: float) -> NextCall:
    """Name the change that trains so much less, fewer epochs or else fewer steps; the owner may give it more time."""
    share = ROOM * allowed / minutes
    epochs, steps = int(share * run.summary.epochs), int(share * run.summary.steps)
    changes = {"training.epochs": epochs} if epochs else {"training.max_steps": max(1, steps)}
    request = {"limits": {"baseline_minutes": math.ceil(minutes)}}
    owner = f"the owner may allow more: configure(project={evidence.name!r}, ask_owner={request})"
    why = f"a shorter baseline; the final run may train longer (phases/05_finalization/workflow.md). Or {owner}"
    return evidence.call("configure", why, changes=changes)
