"""Validation without training: `python -P -m trainwright.trainer.jobs.validate FOLDER`.

Reads `order.json` (configuration, code root), leaves `report.json` and `expectations.yaml` (suggested) in the folder.
It is no evidence: every smoke run validates for itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.data import cache
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.validation.expectations import read_expectations
from trainwright.trainer.data.validation.report import MAX_ROWS, Verdict
from trainwright.trainer.data.validation.suggest import suggested
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.evidence.validation import STREAMS, context_of, placed
from trainwright.trainer.jobs.answering import answer
from trainwright.trainer.run import write_report
from trainwright.trainer.user_code import guard, import_record, write_guard


def main(folder: Path) -> int:
    """Validate as ordered. Returns the process's exit code."""
    remedy = "Correct the data, or the code that reads it, at the end of the log."
    return answer(folder, lambda order: _validated(folder, order), remedy=remedy)


def _validated(folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    config, root = parse_config(order["config"]), Path(order["code_root"])
    _use_access(config, order)
    guard.install()
    import_record.install(root)
    write_guard.install(folder.parents[2] / "projects" / "any" / "runs" / "validation", root)
    expectations = read_expectations(config.data.expectations if config.data else None, root)
    seeding.seed_everything(config.seed)
    samples, problem = _samples(config, root)
    context = context_of(config, root, expectations, samples, config.seed)
    if context is None:
        raise problem or _no_rows(config)
    report = placed(validate(context), context)
    if problem is not None:
        report = report.model_copy(update={"checks": [_not_loaded(problem), *report.checks]})
    write_report(folder / "expectations.yaml", suggested(context), keeps_random=True)
    return {"report": report.model_dump(mode="json")}


def _use_access(config: TrainingConfig, order: dict[str, Any]) -> None:
    """Set the data cache, and take the credentials that data name out of the environment before user code runs."""
    folder, most_bytes = order["data_cache"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    cache.use(cache.DataCache(Path(folder), most_bytes))
    connections.use_order({} if config.data is None else config.data.args, order)


def _samples(config: TrainingConfig, root: Path) -> tuple[dict[str, Any], TrainwrightError | None]:
    """Return the samples by split, and the error where they cannot be built; rows are checked all the same."""
    try:
        return raw_splits_of(config, root).samples, None
    except TrainwrightError as error:
        return {}, error


def _not_loaded(problem: TrainwrightError) -> Verdict:
    rows = [row for row in problem.details.get("rows", []) if isinstance(row, int)][:MAX_ROWS]
    return Verdict(
        family="loading",
        name="loads",
        passed=False,
        rows=rows,
        count=len(rows),
        text=problem.message,
        remedy=problem.remedy,
    )


def _no_rows(config: TrainingConfig) -> TrainwrightError:
    named = config.data.use if config.data else config.task.use if config.task else ""
    return DataError(f"{named} gives no rows to validate: {STREAMS}.", remedy="start_training(project, kind='smoke').")


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    guard.exit_now(code)
