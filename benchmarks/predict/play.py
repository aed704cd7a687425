"""Playing one case: its model is trained and exported, and a folder with `final_model/` alone answers raw inputs."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cases import Case

from trainwright.tools.evaluation import Others, Sealed, evaluate_program
from trainwright.trainer import worker
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.jobs import data_worker, train  # noqa: F401 - which forks of this process then have
from trainwright.trainer.jobs.export import work  # noqa: F401 - likewise
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.environment import launch_environment
from trainwright.trainer.user_code.guard import exit_now

SAME = 1e-4
"""By which the figure of the answers may differ from the certified one."""


@dataclass
class Played:
    """What became of a case."""

    name: str
    answered: int = 0
    certified: float = math.nan
    """The clean room's figure of the model on the test rows."""
    of_answers: float = math.nan
    """The same of what predict.py answered, in the user's terms."""
    problem: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether both figures are the same."""
        return abs(self.certified - self.of_answers) <= SAME * max(1.0, abs(self.certified))

    @property
    def line(self) -> str:
        """One line of the table."""
        state = "equal" if self.is_equal else "other"
        figures = f"{self.certified:9.4f} {self.of_answers:9.4f}"
        return f"{self.name:28} {self.answered:4} answers  {figures}  {state}  {self.problem}"


def play(case: Case) -> Played:
    """Train, export, evaluate apart, and answer; never raises."""
    with tempfile.TemporaryDirectory(prefix="predict-") as place:
        code = Path(place) / "code"
        code.mkdir()
        arguments, truth = case.write(code)
        try:
            export, certified = _exported(case, Path(place), code)
            if case.of_rows is not None:
                arguments, truth = case.of_rows(Path(place) / "rows" / "artifacts" / "rows" / "test")
            model = export.artifacts / "final_model"
            answers = answers_of(model, Path(place) / "alone", arguments)
            if case.by_library is not None:  # the figures are the shares of texts that are equal
                certified, truth = 1.0, case.by_library(model / "transformers", truth)
        except RuntimeError as error:
            return Played(case.name, problem=str(error))
        return Played(case.name, len(answers), certified, case.score(answers, truth))


def answers_of(model: Path, alone: Path, arguments: list[str]) -> list[dict[str, Any]]:
    """Return the answers of a fresh folder that holds only the model's. Raises RuntimeError where it gives none."""
    alone.mkdir()
    shutil.copytree(model, alone / "final_model")
    command = [sys.executable, "-I", "-B", "final_model/predict.py", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=alone, env={"HOME": str(alone)})
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    found = [json.loads(line)["answer"] for line in done.stdout.splitlines()]
    return [one | {key: str(alone / one[key]) for key in ("mask", "drawn") if key in one} for one in found]


def _exported(case: Case, place: Path, code: Path) -> tuple[RunDirectory, float]:
    rows = _worked(place / "rows", case.values, code, RunKind.SMOKE, max_steps=2)
    run = _worked(place / "run", case.values, code, RunKind.FINAL, exports_program=True)
    export = _worked(place / "export", case.values, code, RunKind.EXPORT, source_run=str(run.path))
    found = evaluate_program(_sealed(export), Others(_sealed(rows), _sealed(run)))
    if found is None or found.problem:
        raise RuntimeError(found.problem if found is not None else "the export has no program")
    values = found.splits["test"]["metrics"]
    if case.metric not in values:
        raise RuntimeError(f"not certified: {found.splits['test']}")
    return export, float(values[case.metric])


def _worked(folder: Path, values: dict[str, Any], code: Path, kind: RunKind, **fields: Any) -> RunDirectory:
    config = parse_config(values)
    given = {"run_id": folder.name, "project": "predict", "config": config, "config_digest": config_digest(config)}
    run = RunDirectory.create(folder, RunSpecification(**given, kind=kind, code_root=str(code), **fields))
    child = os.fork()  # of a process that has imported torch
    if child == 0:
        code_of_exit = 70
        try:
            log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ.update(launch_environment(config))
            code_of_exit = worker.main([str(run.path)])
        finally:
            exit_now(code_of_exit)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        failure = run.status().failure
        raise RuntimeError(f"{kind.value}: {failure.message if failure else run.log.read_text()[-400:]}")
    return run


def _sealed(run: RunDirectory) -> Sealed:
    files = [path for path in run.path.rglob("*") if path.is_file()]
    return Sealed(run, {path.relative_to(run.path).as_posix(): digest_file(path) for path in files})
