"""Copy of a study in Optuna's own storage, for its dashboard and for scripts that read Optuna's studies.

Our table stays the only truth: the copy is written anew each time, and nothing reads it back.
"""

from __future__ import annotations

import sqlite3
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.hyperparameter_tuner.analysis import subject_of
from trainwright.tools.hyperparameter_tuner.memory_study import memory_study
from trainwright.tools.hyperparameter_tuner.trials import trials_of
from trainwright.tools.workspace.handles import study_handles, study_named
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConflictError, StorageError

if TYPE_CHECKING:
    import optuna

    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
    from trainwright.tools.workspace import Workspace


def copy_to_optuna(workspace: Workspace, study: str, path: Path) -> tuple[str, int]:
    """Write a study into a new SQLite file in Optuna's form, whole or not at all.

    Returns:
        The study's name there, which is its handle, and its number of trials.

    Raises:
        NotFoundError: no such study.
        ConflictError: the file exists, or it is an ablation study, which Optuna has no form for.
        StorageError: it cannot be written.
    """
    if path.exists():
        raise ConflictError(
            f"{path.name} exists, and a copy is written whole into a new file.",
            remedy="Name another file, or delete this one.",
        )
    with workspace.snapshot() as session:
        study_id = study_named(session, study)
        row, trials = get_study(session, study_id), trials_of(session, study_id)
        name, search = study_handles(session).get(study_id, study_id), subject_of(session, row).search
    kept = memory_study(search.space, row.objective["direction"], trials, objectives=search.objectives)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".optuna-") as folder:
            written = Path(folder) / "copy.sqlite3"
            _write(kept, trials, written, name, [row.objective["metric"], *(one.metric for one in search.objectives)])
            written.rename(path)
    except OSError as error:
        raise StorageError(
            f"The copy of {name} could not be written: {error}.",
            remedy="Name a file in a folder that exists and has room.",
        ) from error
    return name, len(trials)


def _write(kept: optuna.Study, trials: list[TrialRecord], path: Path, name: str, metrics: list[str]) -> None:
    import optuna

    storage = optuna.storages.RDBStorage("sqlite://", {"creator": partial(sqlite3.connect, path)})
    copy = optuna.create_study(storage=storage, study_name=name, directions=kept.directions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        copy.set_metric_names(metrics)
    for frozen, trial in zip(kept.get_trials(deepcopy=False), trials, strict=True):
        frozen.user_attrs = {"run": trial.run, **_cause(trial)}
        copy.add_trial(frozen)
    storage.engine.dispose()


def _cause(trial: TrialRecord) -> dict[str, str]:
    cause = trial.attributes.get("cause")
    return {"cause": f"{cause.get('category')}: {cause.get('message')}"} if isinstance(cause, dict) else {}
