"""A training run from its specification to its summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.trainer.acceleration.compilation import defer_compiler
from trainwright.trainer.assembly.assemble import assemble, choose_device
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DivergenceError, ReproducibilityError
from trainwright.trainer.base.seeding import is_tensorflow_seeded
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.data.own_samples import notes_on_draws
from trainwright.trainer.engine.loop import train
from trainwright.trainer.engine.memory import explained_shortage
from trainwright.trainer.engine.observers.bounding import Bounding
from trainwright.trainer.engine.observers.checkpointing import Checkpointing, Selection
from trainwright.trainer.engine.observers.commitments import Committing
from trainwright.trainer.engine.observers.observer import Observer, Observers
from trainwright.trainer.engine.observers.recorder import Recorder, Reporter, SettingsHeld
from trainwright.trainer.engine.observers.tracing import Tracing
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.trackers import trackers_of
from trainwright.trainer.evidence.data import data_evidence, profile_evidence
from trainwright.trainer.evidence.determinism_probe import run_probes
from trainwright.trainer.evidence.environment import code_evidence, environment_evidence
from trainwright.trainer.evidence.fixed_rows import require_same_samples
from trainwright.trainer.evidence.looked_at import looked_at_evidence
from trainwright.trainer.evidence.origin import origin_evidence
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.evidence.run_evidence import (
    check_expected,
    expected_environment,
    found_code,
    resolved_evidence,
    summary_evidence,
)
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.evidence.validation import files_of, validated
from trainwright.trainer.frameworks.loop import train as train_framework
from trainwright.trainer.jobs import resume_probe
from trainwright.trainer.jobs.evaluation.record import EVALUATED, evaluation
from trainwright.trainer.jobs.fork import Fork
from trainwright.trainer.jobs.ranks import SilentCheckpointing
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import imported_packages
from trainwright.trainer.run.evidence import Environment, Imported
from trainwright.trainer.strategies import share
from trainwright.trainer.strategies.group import world_size
from trainwright.trainer.supervision.heartbeat import Heartbeat
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.user_code import import_record
from trainwright.trainer.watch.alerts import require_no_stop
from trainwright.trainer.watch.divergence import note_divergence
from trainwright.trainer.watch.inspectors.layer_norms import begun_near_zero
from trainwright.trainer.watch.watch import watching

TENSORFLOW = (
    "TensorFlow was imported, and seeded before anything drew from it. Its generators are in no checkpoint: after a "
    "resume they begin again at the seed, so draw what training needs from torch or NumPy."
)


def train_run(
    run: RunDirectory,
    specification: RunSpecification,
    heartbeat: Heartbeat,
    stop: StopRequest,
    fork: Fork | None = None,
) -> str:
    """Train as specified, from the newest intact checkpoint where there is one; return the stop reason.

    Args:
        fork: of a smoke run, the process that is held to resume it exactly.

    Raises:
        ReproducibilityError: a probe failed, data, code or packages are not the plan's, or code was imported late.
        And the errors of assembling and training.
    """
    ordered = specification
    if specification.kind is RunKind.REPLAY:
        from trainwright.trainer.jobs.replay import as_source

        specification = as_source(specification)
    defer_compiler()
    prove(run, specification, heartbeat)
    session = open_session(run, specification, heartbeat, stop)
    if specification.kind is RunKind.PROBE:
        from trainwright.trainer.jobs.probe.run import probe

        return probe(session, heartbeat)
    share(session)
    checkpointing = Checkpointing() if session.strategy.is_first else SilentCheckpointing()
    session.near_zero = begun_near_zero(session)
    _resume(session)
    # of a group the launcher's tree and all its devices
    sampler = SystemSampler(session.strategy.watched_process, gpus=heartbeat.gpus, folder=run.path)
    recorder = Recorder(run.metrics(writer=True), trackers_of(session), sampler)
    observers = _observers(session, recorder, heartbeat, checkpointing)
    sampler.start()
    heartbeat.set(state=RunState.RUNNING, stage="training")
    try:
        with explained_shortage(session), stop.between_steps():
            reason = (train if session.work.framework is None else train_framework)(session, observers)
    except DivergenceError as error:
        recorder.note_non_finite(session, error.details["step"], *_noted(error))
        note_divergence(session, recorder, error)
        raise
    finally:
        sampler.close()
        observers.close()
    draws = seeding.capture() if fork is not None else {}
    _record_end(session, specification, reason, sampler)
    if session.progress.stop_reason is not None and session.strategy.is_first:
        _conclude(run, ordered, session, heartbeat)
    _compare(run, ordered, session, heartbeat)
    if fork is not None:
        heartbeat.stage("resuming in a fresh process")
        resume_probe.require_same(session, fork, draws)
    if specification.kind is RunKind.SMOKE and session.progress.stop_reason is not None and session.strategy.is_first:
        from trainwright.trainer.jobs.export_probe import probe_export

        heartbeat.stage("trying the export")
        run.write_evidence(probe_export(session))
    return reason


def _conclude(run: RunDirectory, ordered: RunSpecification, session: Session, heartbeat: Heartbeat) -> None:
    """Record what a run that trained to its end is worth: predictions, the exported program, rivals beside it."""
    if ordered.kind in EVALUATED:
        heartbeat.stage("evaluating")
        run.write_evidence(evaluation(session))
    if ordered.exports_program:
        from trainwright.trainer.jobs.export.program import export_program

        heartbeat.stage("exporting the program")
        run.write_evidence(export_program(session))
    if ordered.kind is RunKind.BASELINE:
        heartbeat.stage("fitting a rival")
        if (rivals := rivals_evidence(session.work.splits, session.config, run.artifacts)) is not None:
            run.write_evidence(rivals)


def _compare(run: RunDirectory, ordered: RunSpecification, session: Session, heartbeat: Heartbeat) -> None:
    """Record how a run that trains another again differs from it: of one step, a beginning, or the whole."""
    if ordered.replayed_step is not None:
        from trainwright.trainer.jobs.replay import compare_step

        run.write_evidence(compare_step(run, ordered, ordered.replayed_step))
    if ordered.kind is RunKind.REPLAY:
        from trainwright.trainer.jobs.replay import compare, compare_beginning

        heartbeat.stage("comparing")
        is_short = ordered.permit.get("is_short") is True
        found = compare_beginning(run, ordered, session.progress.step) if is_short else compare(run, ordered, session)
        run.write_evidence(found)


def _observers(session: Session, recorder: Recorder, heartbeat: Heartbeat, checkpointing: Observer) -> Observers:
    before, after = watching(session, recorder)
    first = [Committing(session), SettingsHeld(), *before, recorder, *after]
    steps = session.config.logging.trace_steps
    last: list[Observer] = [Tracing(steps)] if steps and session.strategy.is_first else []
    until = session.run.limits().until_epoch  # of every process: they stop together
    last += [Bounding(until)] if until is not None else []
    return Observers([*first, Selection(), Reporter(heartbeat), checkpointing, *last], heartbeat.stage)


def _record_end(session: Session, specification: RunSpecification, reason: str, sampler: SystemSampler) -> None:
    """Write what a run that ended in order leaves. Raises AlertError, or as `require_honest` does."""
    require_honest(specification)
    session.run.write_evidence(Imported(packages=imported_packages()))
    session.run.write_evidence(summary_evidence(session, reason, sampler))
    require_no_stop(session, reason)


def require_honest(specification: RunSpecification) -> None:
    """Check that the settings held, and that the recorded code is the code that ran.

    Raises:
        ReproducibilityError: a setting was switched, or code was imported late; the run is no evidence.
    """
    determinism.require_applied(specification.config.reproducibility, specification.exemptions)
    import_record.require_recorded(Path(specification.code_root))


def prove(run: RunDirectory, specification: RunSpecification, heartbeat: Heartbeat) -> None:
    """Seed, apply the deterministic settings, probe both, and record the environment.

    Raises:
        ReproducibilityError: a probe failed.
    """
    heartbeat.stage("probing")
    config = specification.config
    determinism.apply_settings(config.reproducibility, specification.exemptions)
    seeded = seeding.seed_everything(config.seed)
    device = choose_device(config)
    root = Path(specification.code_root)
    heartbeat.gpus = 0 if device.type == "cpu" else world_size()
    environment = environment_evidence(
        root,
        device=device.type,
        precision=config.training.precision,
        world_size=world_size(),
    )
    run.write_evidence(environment)
    probed = run_probes(config, seeded, specification.exemptions)
    run.write_evidence(probed)
    run.append_event("probe", passed=probed.passed)
    if not probed.passed:
        raise ReproducibilityError(
            "The reproducibility probes did not pass on this machine.",
            remedy="artifacts/reproducibility.json shows which; `trainwright doctor` tests the machine.",
            details={"probe": probed.probe.as_dict(), "settings": probed.settings},
        )


def open_session(
    run: RunDirectory, specification: RunSpecification, heartbeat: Heartbeat, stop: StopRequest
) -> Session:
    """Import and build the user's code under its time limit, record data and code, and compare them with the plan."""
    heartbeat.set(stage="importing")
    heartbeat.begin_user_code()
    session = assemble(specification, run, stop)
    heartbeat.end_user_code()
    stop.listen()  # user code may have taken the signals over
    config, root = specification.config, Path(specification.code_root)
    determinism.apply_settings(config.reproducibility, specification.exemptions)  # and the settings
    session.work.splits.files += files_of(config, root)
    data, code = data_evidence(session.work.splits, root), code_evidence(root)
    environment = run.part(Environment)
    if is_tensorflow_seeded():
        run.append_event("note", text=TENSORFLOW)
    run.write_evidence(data)
    run.write_evidence(code)
    if specification.kind is RunKind.SMOKE:
        require_same_samples(run, session.work.splits)
        seed, is_batched = session.context.data_seed, session.work.batch_size is None
        run.write_evidence(looked_at_evidence(session.work.splits, seed, is_batched=is_batched))
        run.write_evidence(profile_evidence(session.work.splits))
        run.write_evidence(origin_evidence(config, session.work.splits.files, root))
        keyed = session.work.framework is not None  # whose generators are keyed wherever they are
        for text in [] if keyed else notes_on_draws(session.work.splits.samples):
            run.append_event("note", text=text)
        record_split_rows(run, session.work.splits)
        session.work.splits.samples.pop("test", None)  # of later runs only an export holds it at all
    import_record.record(code.files)
    run.write_evidence(resolved_evidence(session))
    found: dict[str, list[str | None]] = {
        "data": [data.fingerprint],
        "code": found_code(specification, code),
        "environment": [expected_environment(specification, environment)],
    }
    details: dict[str, Any] = {
        "data": {name: split.fingerprint for name, split in data.splits.items()} | data.files,
        "code": code.files,
        "environment": environment.fingerprint_basis,
    }
    check_expected(specification, found, details)
    if specification.kind is not RunKind.SMOKE:  # whose data worker has validated them
        heartbeat.stage("validating data")
        run.write_evidence(validated(specification, session.work.splits.samples, session.context.data_seed))
    return session


def _resume(session: Session) -> None:
    """Resume the newest intact checkpoint of an earlier attempt, if there is one."""
    run = session.run
    checkpoint, skipped = newest_whole(DirectoryStore(run), config_digest=session.specification.config_digest)
    session.strategy.require_same(checkpoint.name if checkpoint is not None else None)
    if checkpoint is not None:
        session.load(checkpoint)
        run.append_event("resumed", from_checkpoint=checkpoint.name, step=checkpoint.manifest["step"], skipped=skipped)
    elif skipped:
        run.append_event("note", text="No checkpoint is intact; training starts from the beginning.", skipped=skipped)


def _noted(error: DivergenceError) -> tuple[float, float]:
    return float(error.details["loss"]), float(error.details.get("gradient_norm", "nan"))
