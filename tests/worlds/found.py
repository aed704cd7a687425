"""What a written run finds before it trains: data, code, model and machine, as parts of the evidence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import trainwright
from trainwright.trainer.base.canonical import digest_bytes, digest_file, digest_json
from trainwright.trainer.base.paths import ENGINE
from trainwright.trainer.data.validation.expectations import read_expectations
from trainwright.trainer.evidence.environment import environment_evidence
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.run.artifacts import Array, FixedRows, FixedSplit
from trainwright.trainer.run.environment import engine_digest
from trainwright.trainer.run.evidence import (
    Code,
    Data,
    Draws,
    Metric,
    Part,
    Reproducibility,
    Resolved,
    Split,
)
from trainwright.trainer.run.key import rows_statement
from trainwright.trainer.run.split_rows import CELL, FILE, INDEX, ORDER, RECORD, SplitRows
from trainwright.trainer.run.status import ProcessIdentity
from trainwright.trainer.run.validation import Report, Validation, Verdict
from trainwright.trainer.user_code.import_record import meanings_of

SIZES = {"train": 100, "validation": 20, "test": 20}
VERDICT = Verdict(family="volume", name="rows_at_least", text="there are 140 rows, and at least 1 are expected")
OF_THE_LOOP = ("precision", "batch_size", "accumulation_steps", "steps_per_epoch", "total_steps")
SHAPE = ("model", "task", "loss", "metrics")
"""Sections that all other fields of a resolved configuration follow from."""
NOBODY = ProcessIdentity(pid=2**22 - 1, started_at=0.0, boot_id="written")
"""The process of a written record: none that a stop could reach."""


@dataclass(frozen=True)
class Seen:
    """What a run finds: data, code and model, as an earlier run of the project found them where one was trained."""

    data: Data
    code: Code
    resolved: Resolved

    @property
    def steps_per_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return self.resolved.steps_per_epoch or 1


def seen(run: RunDirectory, plan: RunSpecification) -> Seen:
    """Return what the run finds: of files as they stand, whatever the earlier run found."""
    before = _trained_before(run, plan)
    known = before.specification().config if before is not None else None
    data = _data(plan)
    if before is not None and known is not None and known.data == plan.config.data:
        found = before.part(Data)
        data = found if found.files.items() <= _digests(Path(plan.code_root), found.files).items() else data
    resolved = _resolved(plan, data)
    if before is not None and known is not None and all(getattr(known, at) == getattr(plan.config, at) for at in SHAPE):
        same = {name: getattr(resolved, name) for name in OF_THE_LOOP}
        resolved = before.part(Resolved).model_copy(update=same)
    return Seen(data, _code(plan, before), resolved)


def _trained_before(run: RunDirectory, plan: RunSpecification) -> RunDirectory | None:
    """Return the newest run of the project that a worker trained on this code."""
    others = [
        RunDirectory(path) for path in run.path.parent.iterdir() if path != run.path and (path / "run.json").exists()
    ]
    alike = [
        one for one in others
        if one.part(Data) and one.last_status().process != NOBODY and one.specification().code_root == plan.code_root
    ]  # fmt: skip
    return max(alike, key=lambda one: one.last_status().started_at or 0.0, default=None)


def _digests(root: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: digest_file(root / name) for name in names if (root / name).is_file()}


def _code(plan: RunSpecification, before: RunDirectory | None) -> Code:
    """Return digests of the files that the configuration names, and of those that an earlier run imported."""
    root = Path(plan.code_root)
    named = set(re.findall(r'"([^":]+\.py):', plan.config.model_dump_json()))
    files = _digests(root, sorted(named | (before.part(Code).files.keys() if before is not None else set())))
    meanings = meanings_of({name: (root / name).read_bytes() for name in files})
    return Code(
        files=files, digest=digest_json(files), meanings=meanings, meaning=digest_json(meanings),
        engine_version=trainwright.__version__, engine_digest=_engine(),
    )  # fmt: skip


@cache
def _engine() -> str:
    return engine_digest(ENGINE)


@cache
def environment(root: Path, precision: str) -> Part:
    return environment_evidence(root, device="cpu", precision=precision)


def reproducibility(seed: int, exemptions: tuple[str, ...]) -> Reproducibility:
    drawn_alike = {"cuda": None, "loader_workers": True, "numpy": True, "python": True, "torch": True}
    settings = {
        "cublas_workspace_config": ":4096:8",
        "cudnn_benchmark": False,
        "cudnn_deterministic": True,
        "deterministic_algorithms": True,
        "pythonhashseed": "0",
        "threads": 1,
        "warns_only": bool(exemptions),
    }
    return Reproducibility(
        seed=seed,
        seeded=drawn_alike | {"tensorflow": None},
        settings=settings,
        exemptions=list(exemptions),
        probe=Draws(draws_repeat=drawn_alike, nondeterministic_operation_refused=True, reason="put_"),
        passed=True,
    )


def _data(plan: RunSpecification) -> Data:
    """Return data whose fingerprint follows from the configuration and from the files that it names."""
    root, data = Path(plan.code_root), plan.config.data
    named = [] if data is None else [str(value) for value in data.args.values() if isinstance(value, str)]
    files = _digests(root, named)
    what = digest_json([None if data is None else data.model_dump(mode="json"), files])
    splits = {name: _split(name, size, digest_json([what, name])) for name, size in SIZES.items()}
    return Data(
        source=None if data is None else data.use,
        splits=splits,
        disjoint=True,
        shared_samples=0,
        alike_samples=[],
        shared_examples=[],
        files=files,
        skipped=0,
        fingerprint=what,
        input={"shape": [4], "dtype": "torch.float32"},
        sampled=False,
        first_look=None,
        split={"validation": 0.2, "test": 0.2, "seed": 42, "stratify": True},
        preprocessing={},
        preprocessing_digest=digest_json({}),
        skipped_files=[],
        text=None,
        columns=None,
        class_names=["0", "1"],
        target_names=None,
        understood={"target": "target: 2 classes"},
        feature_names=None,
    )


def _split(name: str, size: int, fingerprint: str) -> Split:
    split = Split(size=size, different=size, fingerprint=fingerprint)
    return split if name == "test" else split.model_copy(update={"classes": {"0": size // 2, "1": size // 2}})


def _resolved(plan: RunSpecification, data: Data) -> Resolved:
    config = plan.config
    samples = (config.loader.batch_size or 32) * config.training.accumulation_steps
    per_epoch = -(-data.sizes["train"] // samples)
    metrics = [Metric(name=str(each), user_defined=False) for each in config.metrics]
    return Resolved(
        returns="output",
        objective="supervised",
        inputs="positional",
        told=["written"],
        parameters=10,
        trainable_parameters=10,
        untrained_numbers=0,
        model_files={},
        model_arguments=["hidden"],
        objective_rests_on={},
        judged_by=None,
        parameter_groups=[],
        products={},
        products_apart=[],
        target_scaling=None,
        model_class="Written",
        device="cpu",
        precision=config.training.precision,
        batch_size=config.loader.batch_size,
        accumulation_steps=config.training.accumulation_steps,
        steps_per_epoch=per_epoch,
        total_steps=config.training.epochs * per_epoch,
        warmup_steps=1,
        loss=str(config.loss),
        user_loss=False,
        metrics=metrics,
        ignored_keys=[],
        keys_without_effect=[],
    )


def fix_rows(run: RunDirectory, plan: RunSpecification, sizes: Mapping[str, int]) -> None:
    """Write validation's verdicts and the fixed rows, and sign them with the key that is forgotten then."""
    expected = read_expectations(plan.config.data.expectations if plan.config.data else None, Path(plan.code_root))
    rows, told = sum(sizes.values()), {"expectations": expected.values(), "expectations_digest": expected.digest()}
    verdicts = Validation(report=Report(checks=[VERDICT], rows=rows, rows_read=rows, **told), day=None)
    run.write_evidence(verdicts)
    splits = {name: _fixed_split(run, name, sizes[name]) for name in ("validation", "test")}
    record = FixedRows(splits=splits, seconds=0.1, target_scaling=None, train_counts=[], validation=verdicts.digest())
    if run.key is not None:
        statement = rows_statement(run.run_id, record.as_dict())
        record = record.model_copy(update={"signature": run.key.sign_rows(statement)})
        run.key.forget_rows()
    run.write_evidence(record)


def _fixed_split(run: RunDirectory, name: str, rows: int) -> FixedSplit:
    arrays = {"input": np.zeros((rows, 4), np.float32), "target": np.arange(rows) % 2}
    folder = run.artifacts / "rows" / name
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for what, values in arrays.items():
        path = folder / f"{what}.npy"
        np.save(path, values)
        found[what] = Array(
            path=f"rows/{name}/{what}.npy", digest=_sha256(path), dtype=str(values.dtype), shape=list(values.shape)
        )
    return FixedSplit(
        size=rows,
        rows=rows,
        inputs={"input": found["input"]},
        order=["input"],
        target=found["target"],
        bytes_per_target=1.0,
    )


def split_rows(run: RunDirectory, sizes: Mapping[str, int]) -> SplitRows:
    size = RECORD + CELL
    content = b"".join(
        digest_bytes(f"{name} {row}".encode()).encode()[-size:] for name in ORDER for row in range(sizes[name])
    )
    (run.artifacts / FILE).write_bytes(content)
    known = {"source": digest_bytes(b"files"), "digest": digest_bytes(content)}
    return SplitRows(level=0, groups=0, kept=dict(sizes), size=size, columns=[INDEX], **known)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
