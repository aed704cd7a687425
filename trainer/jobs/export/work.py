"""An export run: load the best checkpoint, measure it on validation and test, write and check the final model."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from trainwright.trainer.assembly.loaders import make_loader
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.secret_scan import masked_values
from trainwright.trainer.base.tensor_files import save_tensors
from trainwright.trainer.checkpoints.store import DirectoryStore, LoadedCheckpoint
from trainwright.trainer.config import dump_yaml
from trainwright.trainer.data.fingerprint import EMPTY, MAX_SAMPLES_READ
from trainwright.trainer.data.marks import places_of
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.engine.session import Session
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.evidence.split_rows import contents_and_inputs
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.jobs.evaluation.record import held_out_importance
from trainwright.trainer.jobs.export.adapters import export_adapter
from trainwright.trainer.jobs.export.exporters import DYNAMO, FAST, ONNX, PROGRAM, onnx_evidence
from trainwright.trainer.jobs.export.library import FOLDER as LIBRARY
from trainwright.trainer.jobs.export.library import write_library_folder
from trainwright.trainer.jobs.export.loaded import ship_loader
from trainwright.trainer.jobs.export.outputs import outputs_of
from trainwright.trainer.jobs.export.parity import wanted_of
from trainwright.trainer.jobs.export.predict import ship_predict
from trainwright.trainer.jobs.export.program import FILES, best_checkpoint, load_deployed, write_others, write_program
from trainwright.trainer.jobs.export.proof import prove as prove_answers
from trainwright.trainer.jobs.export.served import Served, rows_to_call_with, served_of
from trainwright.trainer.jobs.export.serving import Serving
from trainwright.trainer.jobs.export.variants import write_variants
from trainwright.trainer.run import RunDirectory, RunSpecification, RunState, write_atomically, write_report
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Code, Data, Resolved
from trainwright.trainer.run.results import ROWS, Evaluated, Export, Onnx, Safetensors, TestSetAccess
from trainwright.trainer.run.split_rows import tell_apart
from trainwright.trainer.supervision.heartbeat import Heartbeat
from trainwright.trainer.supervision.stop import StopRequest

MAX_ROWS = 1_000_000


def export_run(run: RunDirectory, specification: RunSpecification, heartbeat: Heartbeat, stop: StopRequest) -> str:
    """Write `artifacts/final_model/` and the `export` evidence; return the stop reason.

    Raises:
        NotFoundError, IntegrityError: the source has no intact best checkpoint.
        ReproducibilityError: data or code are no longer those of the source.
    """
    from trainwright.trainer.jobs.train import open_session, prove, require_honest

    if specification.source_run is None:
        raise ConfigurationError(
            "An export needs source_run.", remedy="Use export_model(project, run_id) with a run that has ended."
        )
    source = RunDirectory(Path(specification.source_run))
    original = source.specification()
    expected = _evidence_digests(source) | specification.expected
    now = specification.config
    config = original.config.model_copy(update={"deployment": now.deployment, "evaluation_gate": now.evaluation_gate})
    specification = specification.model_copy(
        update={"config": config, "returns": original.returns, "expected": expected}
    )
    checkpoint = DirectoryStore(source).open(best_checkpoint(source))
    prove(run, specification, heartbeat)
    session = open_session(run, specification, heartbeat, stop)
    heartbeat.set(state=RunState.RUNNING, stage="exporting")
    load_deployed(session, checkpoint)
    folder = run.artifacts / "final_model"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    measured = {split: _evaluated(session, split) for split in ("validation", "test")}
    importance = held_out_importance(session)
    if (framework := framework_in(session.work)) is not None:
        framework.unwrap()
    session.model.eval()
    written = _write(session, checkpoint, folder, measured)
    files = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "digest": digest_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    heartbeat.stage("fitting a rival")
    splits = session.work.splits
    if (rivals := rivals_evidence(splits, session.config, run.artifacts, ("validation", "test"))) is not None:
        run.write_evidence(rivals)
    require_honest(specification)
    run.write_evidence(
        Export(
            source_run=source.run_id,
            checkpoint=checkpoint.name,
            checkpoint_digest=checkpoint.manifest["digest"],
            importance=importance,
            files=files,
            **measured,
            **written,
        )
    )
    return "completed"


def _evidence_digests(source: RunDirectory) -> dict[str, str]:
    """Return the digests that the source ran on: its data and code must still be the same."""
    data, code = source.part(Data), source.part(Code)
    found = {"data": data.fingerprint, "code": code.meaning or code.digest}
    return {name: digest for name, digest in found.items() if digest}


def _evaluated(session: Session, split: str) -> Evaluated:
    """Return the metrics on validation or, only here, on test."""
    splits = session.work.splits
    record, values = splits.records.get(split, EMPTY), None
    if split in splits.samples:
        if split == "test":  # before the first row is read: however this run ends, it has looked
            seen, inputs = (sorted(set(digests)) for digests in contents_and_inputs(splits, split))
            inputs = inputs if tell_apart(inputs, seen) else []
            source, known = splits.placed_in, splits.samples[split]
            places = places_of(known).tolist()[:MAX_SAMPLES_READ] if source else []
            access = TestSetAccess(
                size=record.size,
                fingerprint=record.fingerprint,
                samples=seen,
                inputs=inputs,
                source=source,
                places=places,
            )
            session.run.write_evidence(access)
        values = evaluate_split(session, make_loader(session.config, session.work, split))
    return Evaluated(size=record.size, fingerprint=record.fingerprint, metrics=values)


def _write(
    session: Session, checkpoint: LoadedCheckpoint, folder: Path, measured: dict[str, Evaluated]
) -> dict[str, Any]:
    """Write the folder; return the record of its files, by the names of the evidence's fields."""
    config, splits = session.config, session.work.splits
    evidence: dict[str, Any] = {"safetensors": _write_weights(session, checkpoint, folder / "model.safetensors")}
    session.model.cpu()
    evidence |= {"library": None, "onnx": None, "latency_ms": None}
    rows, are_real, uncalled, outputs = dict[str, Tensor](), False, None, dict[str, Any]()
    try:
        rows, are_real = rows_to_call_with(session)
    except ConfigurationError as error:
        if set(config.deployment.formats) != {"safetensors"}:
            raise
        uncalled = error
    evidence["adapter"] = export_adapter(session, rows, folder)
    if uncalled is None:
        served = served_of(session, rows, are_real=are_real)
        evidence["library"] = write_library_folder(session, rows, folder / LIBRARY)
        evidence["onnx"] = _write_program(session, served, checkpoint, folder)
        if evidence["onnx"] is not None:
            wanted, artifacts = config.deployment.variants, session.run.artifacts
            evidence["variants"] = write_variants(wanted, folder / FILES[ONNX], artifacts, served.rows)
        evidence["programs"] = write_others(served.serving, served.rows, folder, config.deployment)
        if (schema := ship_predict(session, served, folder)) is not None:
            proven = prove_answers(session, folder, served, schema)
            evidence |= {"unproven": proven} if isinstance(proven, str) else {"skew": proven}
        evidence["loaded"] = ship_loader(session, served.serving, rows, folder, evidence)
        evidence["latency_ms"] = _latency_ms(served.serving, rows)
        outputs = outputs_of(session, wanted_of(served.serving, rows))
    else:
        session.run.write_evidence(Program(problem=uncalled.message, remedy=uncalled.remedy))
    described = {
        **session.run.part(Resolved).as_dict(),
        "class_names": splits.class_names,
        "target_names": splits.target_names,
        "feature_names": splits.feature_names,
        "text": splits.text.as_dict() if splits.text is not None else None,
        "preprocessing": splits.preprocessing.record() if splits.preprocessing is not None else None,
        "onnx_includes_preprocessing": splits.preprocessing is not None,
        "input_shapes": [list(value.shape[1:]) for value in rows.values()],
        "input_types": [str(value.dtype).removeprefix("torch.") for value in rows.values()],
        "outputs": outputs,
    }
    metrics = {split: found.as_dict() for split, found in measured.items()} | {"latency_ms": evidence["latency_ms"]}
    for name, value in (("metrics.json", metrics), ("resolved.json", described)):
        write_report(folder / name, json.dumps(masked_values(value), indent=2, sort_keys=True), keeps_random=True)
    _ship_rows(splits, folder)
    write_report(folder / "config.yaml", dump_yaml(config.model_dump(mode="json")), keeps_random=True)
    let_read(folder)
    return evidence


def let_read(folder: Path) -> None:
    """Let those read the files who may read the folder: safetensors and save_pretrained write for their owner alone."""
    for path in (one for one in folder.rglob("*") if one.is_file()):
        path.chmod(path.parent.stat().st_mode & 0o666)


def _ship_rows(splits: Splits, folder: Path) -> None:
    """Write which split each row of the data's files is in, in the files' order; not of more than MAX_ROWS."""
    if not splits.placed_in or sum(map(len, splits.samples.values())) > MAX_ROWS:
        return
    listed = sorted((row, name) for name, samples in splits.samples.items() for row in places_of(samples).tolist())
    write_atomically(folder / ROWS, "\n".join(["row,split", *(f"{row},{name}" for row, name in listed), ""]).encode())


def _write_program(session: Session, served: Served, checkpoint: LoadedCheckpoint, folder: Path) -> Onnx | None:
    """Write model.onnx, or where no ONNX is wanted model.pt2 for the evaluation, and the record of the program.

    Raises:
        ConfigurationError, IntegrityError: there is no ONNX that gives the model's outputs.
    """
    started, deployment, problem = time.perf_counter(), session.config.deployment, served.problem
    is_onnx, written = "onnx" in deployment.formats, None
    if is_onnx:
        served.require_servable()
        written = write_program(served.serving, served.rows, folder, (DYNAMO, FAST), deployment.onnx_tolerance)
    elif problem is None:
        try:
            written = write_program(served.serving, served.rows, folder, (PROGRAM,), deployment.onnx_tolerance)
        except TrainwrightError as error:
            problem = error
    program = Program(problem=problem.message, remedy=problem.remedy) if problem is not None else Program()
    if written is not None:
        program = written.record(session.run.artifacts, checkpoint, problem)
    session.run.write_evidence(program.model_copy(update={"seconds": round(time.perf_counter() - started, 3)}))
    return onnx_evidence(written.path, written.parity) if written is not None and is_onnx else None


def _write_weights(session: Session, checkpoint: LoadedCheckpoint, path: Path) -> Safetensors:
    """Write the checkpoint's weights, and the frozen ones that it only names: they were compared when it was loaded."""
    base = checkpoint.state.get("frozen_base", {}).get("tensors", {})
    held = session.model.state_dict()
    weights = checkpoint.model | {name: held[name].cpu().contiguous().clone() for name in base}
    save_tensors(weights, path, {"format": "pt"})
    again = load_file(path)
    same = again.keys() == weights.keys() and all(
        torch.equal(value, again[name]) or bool(torch.isnan(value).any()) for name, value in weights.items()
    )
    return Safetensors(tensors=len(again), reloaded_identical=same)


def _latency_ms(serving: Serving, rows: dict[str, Tensor]) -> dict[str, float]:
    """Return median milliseconds of a forward pass on the CPU with this process's threads."""
    result = {}
    for size in (1, min(32, len(next(iter(rows.values()))))):
        batch = tuple(value[:size] for value in rows.values())
        times = []
        with torch.no_grad():
            for _ in range(30):
                start = time.perf_counter()
                serving(*batch)
                times.append((time.perf_counter() - start) * 1000.0)
        result[f"batch_size_{size}_median"] = round(statistics.median(times[5:]), 4)
    return result
