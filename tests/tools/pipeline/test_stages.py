"""Stages of a real project: made by one call, not made twice, bound by slices and a baseline, shown and written."""

from __future__ import annotations

import copy
import json
import os
import platform
import random
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.companions import DVC, KFP
from tests.worlds.flowers import CONFIG, GOAL, NAME, write_code
from tests.worlds.warm import warm

from trainwright.tools import projects
from trainwright.tools.documents import SKILL
from trainwright.tools.pipeline import (
    STAGES,
    data_document,
    make_stage,
    pipeline_document,
    pipeline_files,
    read_definition,
    stages_of_project,
    write_pipeline,
)
from trainwright.tools.pipeline.writing import apply_definition
from trainwright.tools.projects import project_status
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError

pytestmark = pytest.mark.slow
At = Callable[[str], Workspace]
PROGRAM = Path(sys.executable).parent / "trainwright"


def _runs(workspace: Workspace) -> int:
    found: Any = project_status(workspace, NAME)
    return len(list((Path(found.folder) / "runs").iterdir()))


@pytest.mark.requirement("PIPE-1")
def test_a_finished_project_has_all_stages_done_and_makes_none_again(at: At) -> None:
    workspace = at("finished")
    before = _runs(workspace)
    stages = {stage.name: stage for stage in stages_of_project(workspace, NAME)}
    assert {name: stages[name].state for name in STAGES} == dict.fromkeys(STAGES, "done")
    assert stages["features"].inputs["data"] == stages["ingestion"].outputs["data"]
    assert stages["validation"].outputs["checks"] > 0
    assert stages["evaluation"].inputs["weights"] == stages["training"].outputs["weights"]
    assert set(stages["registration"].outputs["model"]) >= {"model.onnx", "model.safetensors"}
    assert make_stage(workspace, NAME, "registration").record() == stages["registration"].record()
    assert _runs(workspace) == before
    assert "| registration | done |" in pipeline_document(workspace, NAME)
    with pytest.raises(ConfigurationError, match="no stage 'trainin'. Near: training"):
        make_stage(workspace, NAME, "trainin")


@pytest.mark.requirement("PIPE-1")
def test_changed_data_or_configuration_leaves_only_what_follows_undone(at: At) -> None:
    workspace = at("planned")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.03})
    states = {stage.name: stage.state for stage in stages_of_project(workspace, NAME)}
    assert [states[name] for name in STAGES[:4]] == ["done", "done", "done", "open"]
    workspace = at("finished")
    table = workspace.path.parent / "code" / "iris.csv"
    table.write_text(table.read_text() + "5.0,3.0,1.0,0.1,0\n")
    stages = {stage.name: stage for stage in stages_of_project(workspace, NAME)}
    assert {stage.state for stage in stages.values()} == {"stale"}
    assert stages["ingestion"].reasons == ["data: iris.csv changed"]


@pytest.mark.requirement("PIPE-4", "TRACK-1")
def test_every_run_report_and_card_names_the_data_version(at: At) -> None:
    workspace = at("finished")
    found: Any = project_status(workspace, NAME)
    from trainwright.tools.training_orchestrator import refresh_run

    assert {refresh_run(workspace, run.run_id).data_version for run in found.runs} == {"v1 of 149 rows"}
    folder = Path(found.folder)
    assert "csv v1 of 149 rows" in (folder / "final_model" / "README.md").read_text()
    assert "Data: v1 of 149 rows" in (folder / "baseline_results.md").read_text()
    card = (folder / "final_model" / "data_card.md").read_text()
    assert "| version | v1 |" in card
    assert card == data_document(workspace, NAME, "latest")
    with pytest.raises(NotFoundError, match="no data version 'v7'"):
        data_document(workspace, NAME, "v1..v7")


@pytest.mark.requirement("PIPE-4")
def test_the_written_pipeline_has_the_stages_and_what_they_depend_on(at: At) -> None:
    workspace = at("created")
    with pytest.raises(ConflictError, match="No smoke run has read the data"):
        pipeline_files(workspace, NAME)
    workspace = at("finished")
    code = workspace.path.parent / "code"
    assert [path.parent for path in write_pipeline(workspace, NAME)] == [code] * 6
    stages = yaml.safe_load((code / "dvc.yaml").read_text())["stages"]
    assert list(stages) == list(STAGES)
    assert stages["ingestion"]["deps"] == ["iris.csv"]
    assert "flower_model.py" in stages["training"]["deps"]
    assert apply_definition(workspace, read_definition(code / "trainwright.yaml"), code) is False
    compile((code / "kubeflow_pipeline.py").read_text(), "kubeflow_pipeline.py", "exec")


@pytest.mark.requirement("SKILL-10")
def test_the_container_is_built_of_a_lock_that_this_environment_fits(at: At, tmp_path: Path) -> None:
    """No docker here: what the build copies is there and nothing else is seen, and each of its shell lines parses."""
    workspace = at("smoked")
    files = pipeline_files(workspace, NAME)
    (tmp_path / "requirements.lock").write_text(files["trainwright.requirements.lock"])
    script = SKILL.parent / "validation-scripts" / "scripts" / "validate_dependencies.py"
    command = [sys.executable, "-P", str(script), str(tmp_path / "requirements.lock"), "--strict"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["packages"] > 20
    lines = files["trainwright.Dockerfile"].replace("\\\n", " ").splitlines()
    steps = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    assert [step for step, _, _ in steps] == ["FROM", "ENV", "RUN", "WORKDIR", "COPY", "RUN", "USER", "CMD"]
    assert steps[0][2] == f"python:{platform.python_version()}-slim"
    for step, _, rest in steps:
        if step == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
    copied = next(rest for step, _, rest in steps if step == "COPY").split()[:-1]
    seen = files["trainwright.Dockerfile.dockerignore"].splitlines()
    assert seen == ["*", *(f"!{name}" for name in copied)]
    assert json.loads(steps[-1][2])[:3] == ["trainwright", "stage", "registration"]
    assert "trainwright==" not in files["trainwright.requirements.lock"]


@pytest.mark.requirement("SKILL-8")
def test_nothing_is_masked_in_the_reports_of_an_honest_project(at: At) -> None:
    workspace = at("finished")
    folder = workspace.project_folder(NAME)
    written = [path for path in folder.rglob("*") if path.suffix in {".md", ".html", ".yaml", ".txt"}]
    assert {"README.md", "data_card.md", "training_config.yaml"} <= {path.name for path in written}
    assert [path.name for path in written if "***" in path.read_text(encoding="utf-8")] == []


@pytest.mark.long
@pytest.mark.requirement("SKILL-8")
def test_a_secret_in_the_intent_refuses_the_pipeline(at: At) -> None:
    secret = "ghp_" + "".join(random.Random(8).choices(string.ascii_letters + string.digits, k=36))
    workspace = at("created")
    code, name = workspace.path.parent / "code", "other-flowers"
    projects.create_project(workspace, name, intent=f"sort flowers, with {secret}", goal=GOAL, config=CONFIG)
    make_stage(workspace, name, "ingestion")
    before = sorted(code.iterdir())
    with pytest.raises(ConfigurationError, match=r"line \d+ of trainwright.yaml .*\(GitHub token\)") as refused:
        write_pipeline(workspace, name)
    assert secret not in str(refused.value.as_dict())
    assert "environment variable" in refused.value.remedy
    assert sorted(code.iterdir()) == before


@pytest.mark.requirement("PIPE-3", "GATE-2")
def test_planning_refuses_a_slice_or_a_baseline_that_is_not_there(at: At) -> None:
    from trainwright.tools.gates.checklist import load_checklist
    from trainwright.tools.gates.checks.evaluation import bounds_measured
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.phases import Phase
    from trainwright.trainer.config import parse_config

    workspace = at("planned")
    line = next(one for one in load_checklist(Phase.PLANNING).checks if one.id == "planning.bounds_measured")
    for gate, told in (
        ({"slices": {"petal=1": {"accuracy": 0.5}}}, "no column 'petal'"),
        ({"baseline": "nobody/final-1"}, "baseline nobody/final-1: There is no run"),
        ({"baseline": f"{NAME}/smoke-1"}, "exported no program"),
    ):
        with workspace.session() as session:
            evidence = Evidence(session, workspace, NAME)
            smoke = evidence.smoke
            evidence.__dict__["config"] = parse_config({**evidence.version.values, "evaluation_gate": gate})
            evidence.__dict__["smoke"] = smoke
            found = bounds_measured(evidence, line)
        assert found.status == "failed", gate
        assert told in found.measured
        assert found.next is not None


@pytest.mark.requirement("PIPE-3", "GATE-2")
def test_verify_derives_planning_with_the_baseline_as_it_stood(at: At) -> None:
    from trainwright.tools.gates.checklist import load_checklist
    from trainwright.tools.gates.checks.evaluation import bounds_measured
    from trainwright.tools.gates.decide import circumstances
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.historical import PastEvidence
    from trainwright.tools.gates.phases import Phase
    from trainwright.tools.ledger import Inspection
    from trainwright.tools.workspace.tables import LedgerEntry
    from trainwright.trainer.config import parse_config

    workspace, gone = at("planned"), {"baseline": "gone/final-1"}
    line = next(one for one in load_checklist(Phase.PLANNING).checks if one.id == "planning.bounds_measured")
    with workspace.session() as session:
        now = Evidence(session, workspace, NAME)
        digest = now.config_digest
        now.__dict__["config"] = parse_config({**now.version.values, "evaluation_gate": gone})
        assert "There is no run" in circumstances(now, Phase.PLANNING)["baseline"]["problem"]
        assert "baseline" not in circumstances(now, Phase.BASELINE)
        sequence, body = copy.deepcopy(now.entries("gate")[-1])
        entry: Any = session.get(LedgerEntry, sequence)
        body["circumstances"]["baseline"] = {"name": "gone/final-1", "run_id": "final-1", "program": "blake3:1"}
        past = PastEvidence(session, workspace, entry, body, Inspection())
        past.__dict__ |= {"config": now.config, "config_digest": digest}
        assert bounds_measured(past, line).status == "passed"


@pytest.mark.requirement("PIPE-1")
def test_a_stage_that_needs_another_configuration_names_the_edit_of_the_file() -> None:
    from trainwright.server.commands.pipeline import worded_for_file

    call = {
        "tool": "configure",
        "arguments": {"changes": {"data.split.by": "hash", "data.split.time": None}},
        "why": ".",
    }
    found = worded_for_file(
        ConflictError("no", remedy="configure(…)", details={"next": call}), Path("a/trainwright.yaml")
    )
    assert 'In trainwright.yaml, under config: data.split.by: "hash"; data.split.time: null' in found.remedy
    other = ConflictError("no", remedy="ask", details={"next": {**call, "tool": "start_training"}})
    assert worded_for_file(other, Path("trainwright.yaml")) is other


GATE = {
    "baseline": f"{NAME}/baseline-1", "max_drift": 0.5, "slices": {"petal_width>=1": {"accuracy": 0.1}},
    "groups": {"species": {"accuracy": 0.0}}, "least_group_rows": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a pipeline's files, and its project made up to evaluation, beside a baseline."""
    repo = tmp_path_factory.mktemp("made") / "repo"
    write_code(repo)
    config = {**{key: value for key, value in CONFIG.items() if key != "code_root"}, "training": {"epochs": 3}}
    definition: dict[str, Any] = {"project": NAME, "goal": GOAL | {"target": 0.1}, "config": config}
    workspace, file = Workspace.open(repo / ".trainwright"), repo / "trainwright.yaml"
    with warm():
        for changes, stage in (({}, "training"), ({"evaluation_gate": GATE, "seed": 7}, "evaluation")):
            definition["config"] = config | changes
            file.write_text(yaml.safe_dump(definition))
            assert apply_definition(workspace, read_definition(file), repo) is True
            assert make_stage(workspace, NAME, stage).state == "done"
    write_pipeline(workspace, NAME)
    workspace.close()
    return repo


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("PIPE-1", "PIPE-3")
def test_one_call_makes_a_project_whose_slices_and_baseline_are_in_gate_and_card(made: Path) -> None:
    workspace = Workspace.open(made / ".trainwright")
    assert make_stage(workspace, NAME, "registration").state == "done"
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text().replace("\\", "")
    assert "| petal_width>=1 | validation |" in card
    assert "by its exported program on the same fixed rows" in card
    assert "McNemar's exact test" in card
    assert "Fairness across groups was not measured" not in card
    status: Any = project_status(workspace, NAME)
    checks = {check.id: check for check in status.checks}
    assert f"{NAME}/baseline-1" in checks["finalization.drift_bounded"].measured
    assert "petal_width>=1 accuracy" in checks["finalization.bounds_kept"].required
    runs = [run.run_id for run in status.runs if run.kind in {"baseline", "export"}]
    compared = projects.compare_runs(workspace, runs[:2]).paired
    assert compared[0]["classes"]["p_value"] == 1.0, "the export is the baseline's program"
    assert verify_workspace(workspace.path).problems == []
    workspace.close()


def _environment() -> dict[str, str]:
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "DVC_NO_ANALYTICS": "1", "TRAINWRIGHT_PROGRAM": str(PROGRAM)}


def _called(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.requirement("PIPE-4", "PIPE-1")
@pytest.mark.companions("dvc")
def test_dvc_reproduces_the_stages_and_then_only_what_depends_on_a_change(made: Path) -> None:
    _called(made, str(DVC), "init", "-q", "--no-scm")
    assert _called(made, str(DVC), "repro").count("Running stage") == len(STAGES)
    assert json.loads((made / "pipeline" / "evaluation.json").read_text())["metrics"]["test"]["accuracy"] > 0
    assert _called(made, str(DVC), "repro").count("Running stage") == 0
    table = made / "iris.csv"
    table.write_text(table.read_text().replace("5.1,3.5,1.4,0.2,0\n", "5.10,3.50,1.40,0.20,0\n"))  # other bytes
    told = _called(made, str(DVC), "repro")
    assert "Running stage 'ingestion'" in told
    assert told.count("Running stage") == 1, "what the data hold is the same, and so is all that depends on it"


@pytest.mark.timeout(600)
@pytest.mark.long
@pytest.mark.requirement("PIPE-4")
@pytest.mark.companions("kfp")
def test_kubeflow_compiles_the_pipeline_and_its_local_runner_runs_it(made: Path) -> None:
    _called(made, str(KFP), "kubeflow_pipeline.py", "compile", "pipeline.yaml")
    tasks = yaml.safe_load((made / "pipeline.yaml").read_text())["root"]["dag"]["tasks"]
    assert sorted(task["taskInfo"]["name"] for task in tasks.values()) == sorted(STAGES)
    _called(made, str(KFP), "kubeflow_pipeline.py", "run")
    workspace = Workspace.open(made / ".trainwright")
    assert {stage.state for stage in stages_of_project(workspace, NAME)} == {"done"}
    workspace.close()
