"""Validation of a run's data, as evidence: by a smoke run in the fork that fixes rows, before any user code runs.

Other runs have the data that planning fixed (their fingerprints are compared), and its verdicts: they validate only
what the day may have changed.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.config import TrainingConfig, flatten
from trainwright.trainer.data.sources import SOURCES, scan_source
from trainwright.trainer.data.tensors import known_targets
from trainwright.trainer.data.validation.expectations import (
    DOCUMENT,
    Expectations,
    expectations_path,
    read_expectations,
)
from trainwright.trainer.data.validation.report import NotChecked, Report
from trainwright.trainer.run import RunKind, RunSpecification
from trainwright.trainer.run.validation import Validation
from trainwright.trainer.user_code.guard import user_code

if TYPE_CHECKING:
    from trainwright.trainer.data.validation.check import Context

MAX_NAMED = 3
STREAMS = "streams, batches and samples of unlike shapes are checked while they are trained on, not before"


def validation_of(config: TrainingConfig, code_root: Path, samples: dict[str, Any], seed: int) -> Validation:
    """Validate the data of a configuration.

    Args:
        samples: by split, as they come from the source.
        seed: of what a data set draws while it is read.

    Raises:
        ConfigurationError: the expectations cannot be read.
    """
    from trainwright.trainer.data.validation.validate import (
        validate,  # polars: most runs train on what planning validated
    )

    expectations = read_expectations(config.data.expectations if config.data else None, code_root)
    try:
        context = context_of(config, code_root, expectations, samples, seed)
        if context is None:
            return Validation(problem=f"{_named(config)}: {STREAMS}", is_exempt=True, report=_nothing(expectations))
        return Validation(report=placed(validate(context), context), day=_today(expectations))
    except TrainwrightError as error:
        family = error.details.get("family")
        return Validation(problem=error.message, remedy=error.remedy, family=family, report=_nothing(expectations))
    except Exception as error:  # noqa: BLE001 - whatever it is, planning stays closed
        sys.stderr.write("validation: " + "".join(traceback.format_exception(error)))
        what = f"{type(error).__name__}: {str(error)[:300]}"
        remedy = "worker.log has the traceback; correct the file, or read it by a function of your own (data.use)."
        return Validation(problem=what, remedy=remedy, report=_nothing(expectations))


def validated(specification: RunSpecification, samples: dict[str, Any], seed: int) -> Validation:
    """Return the verdicts on the data of a run that is no smoke run: those of planning, or its own.

    Raises:
        ConfigurationError: the expectations cannot be read.
        DataError: an expectation does not hold any more, or cannot be checked any more.
    """
    config, root = specification.config, Path(specification.code_root)
    expectations = read_expectations(config.data.expectations if config.data else None, root)
    known = specification.validated_by
    if specification.kind is RunKind.REPLAY or (known is not None and not expectations.depends_on_the_day):
        return Validation(known_from=known)
    if config.data is None or config.data.use not in SOURCES:
        problem = None if known else "the smoke run validates samples of user code"
        return Validation(known_from=known, problem=problem, is_exempt=problem is not None)
    validation = validation_of(config, root, samples, seed)
    if validation.problem and not validation.is_exempt:
        raise DataError(
            f"The data could not be validated: {validation.problem}",
            remedy=f"{validation.remedy} validate_data(project='{specification.project}') validates it again.",
            document=DOCUMENT,
        )
    require_valid(validation, specification.project)
    return validation


def files_of(config: TrainingConfig, code_root: Path) -> list[Path]:
    """Return the files that verdicts depend on beside the data: expectations, and the reference of drift."""
    given = config.data.expectations if config.data is not None else None
    if given is None:
        return []
    drift = read_expectations(given, code_root).drift
    own = [expectations_path(given, code_root)] if isinstance(given, str) else []
    return own + ([] if drift is None else [confine(drift.reference, code_root, key="drift.reference")])


def context_of(
    config: TrainingConfig, code_root: Path, expectations: Expectations, samples: dict[str, Any], seed: int
) -> Context | None:
    """Return what the families look at: a source's own rows, else a sample of the samples; None where neither is."""
    from trainwright.trainer.data.validation.check import CONTENT, Context
    from trainwright.trainer.data.validation.frames import reference_of, sampled, scanned
    from trainwright.trainer.data.validation.values import kind_of

    section = config.data
    if section is not None and section.use in SOURCES:
        frame = scan_source(section.use, section.args, code_root)
        if frame is not None:
            drift, is_series = expectations.drift, bool(section.args.get("series"))
            path = drift.reference if drift is not None else None
            reference = None if path is None else reference_of(section.use, section.args, code_root, path)
            found = scanned(
                frame, expectations, use=section.use, args=section.args, reference=reference,
                samples=None if is_series else samples,  # whose samples are no rows
            )  # fmt: skip
            task = found.task or ("regression" if is_series else _task_of(samples))
            settled = flatten({"data": {"split": section.split.model_dump(mode="json")}})
            key = section.split.key
            grouped_by = key if section.split.by in {"group", "hash"} else None
            return replace(found, task=task, split_by=key, grouped_by=grouped_by, settled=settled)
    with user_code("Reading samples to validate them", code_root):
        table = sampled(samples, seed)
    if table is None:
        return None
    kinds = {name: kind_of(dtype) for name, dtype in table.frame.collect_schema().items() if name != CONTENT}
    return Context(
        frame=table.frame,
        kinds=kinds,
        expectations=expectations,
        targets=["target"] if "target" in kinds else [],
        splits=table.splits,
        is_sample=table.is_sample,
        source=_named(config),
        places=table.places,
        summaries=table.summaries,
    )


def _task_of(samples: dict[str, Any]) -> str | None:
    """Return what a table's target was taken for; None where its targets are not in memory."""
    targets = known_targets(samples.get("train"))
    if targets is None or targets.dim() > 2:
        return None
    is_labels = targets.dim() == 2 and bool(((targets == 0) | (targets == 1)).all())
    return "regression" if targets.is_floating_point() and not is_labels else "classification"


def placed(report: Report, context: Context) -> Report:
    """Return the report with row numbers of the source, and with what a sample leaves open."""
    notes = list(report.not_checked)
    if context.is_sample:
        why = f"{report.rows_read} evenly spaced samples were read of {context.source}: it is no table in a file"
        notes.append(NotChecked(what="the other samples", why=why))
    checks = report.checks
    if context.places is not None:
        numbers = context.places
        checks = [
            one.model_copy(update={"rows": [int(numbers[row]) for row in one.rows if row < len(numbers)]})
            for one in checks
        ]
    return report.model_copy(update={"checks": checks, "not_checked": notes})


def require_valid(validation: Validation, project: str) -> None:
    """Refuse to train on data that breaks an expectation, or that nothing could be learned from. Raises DataError."""
    stopping = validation.report.stopping
    if not stopping:
        return
    named = "; ".join(f"{one.place}: {one.text}{_rows(one.rows, one.count)}" for one in stopping[:MAX_NAMED])
    more = f"; and {len(stopping) - MAX_NAMED} more" if len(stopping) > MAX_NAMED else ""
    raise DataError(
        f"{len(stopping)} check{'s' * (len(stopping) > 1)} of the data failed. {named}{more}.",
        remedy=f"{stopping[0].remedy} validate_data(project='{project}') shows all of it; then "
        f"start_training(project='{project}', kind='smoke').",
        document=DOCUMENT,
        details={"checks": [one.place for one in stopping], "rows": {one.place: one.rows for one in stopping[:10]}},
    )


def _rows(rows: list[int], count: int) -> str:
    if not rows:
        return ""
    shown = ", ".join(map(str, rows[:5]))
    return f" (row{'s' * (len(rows) > 1)} {shown}{', …' if count > 5 else ''}, counted from 0)"


def _named(config: TrainingConfig) -> str:
    entry = config.data or config.task
    return entry.use if entry is not None else ""


def _today(expectations: Expectations) -> str | None:
    return datetime.now(UTC).date().isoformat() if expectations.depends_on_the_day else None


def _nothing(expectations: Expectations) -> Report:
    return Report(expectations=expectations.values(), expectations_digest=expectations.digest())
