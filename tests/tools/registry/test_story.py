"""A model's versions in use: two real releases, compared on the same rows, promoted, refused, granted, rolled back."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.worlds.flowers import NAME, STAGES, advance

from trainwright.server.commands.deploy import folder_of
from trainwright.server.commands.model import path as print_path
from trainwright.tools import projects, registry
from trainwright.tools.ledger import ProjectFacts, entries
from trainwright.tools.ledger.events import ModelRegistered
from trainwright.tools.owner import Grantor, decide
from trainwright.tools.registry.versions import registered
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.canonical import digest_bytes, digest_path
from trainwright.trainer.base.errors import GateRefusedError, IntegrityError, StorageError
from trainwright.trainer.run.artifacts import FixedRows, Program
from trainwright.trainer.run.directory import RunDirectory

OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1", processes=["bash (1)"])
Rows = np.ndarray[Any, Any]
SLICES = {"petal_length > 3": {"accuracy": 0.1}}
At = Callable[[str], Workspace]


def add_rows(table: Path) -> None:
    """As many new flowers as there are, each a known one measured again by a rougher hand."""
    header, *known = table.read_text().splitlines()
    draw = random.Random(1)
    new = []
    for line in known:
        *values, species = line.split(",")
        new.append(",".join([*(f"{float(value) + draw.gauss(0, 0.1):.2f}" for value in values), species]))
    table.write_text("\n".join([header, *known, *new]) + "\n")


def release_worse(workspace: Workspace) -> None:
    """Release a second model, trained little on the new rows: worse than the first, and above the goal."""
    add_rows(workspace.path.parent / "code" / "iris.csv")
    projects.configure(
        workspace,
        NAME,
        changes={
            "training.epochs": 2,
            "optimizer.learning_rate": 0.013,
            "evaluation_gate.slices": SLICES,
            "deployment.formats": ["safetensors", "onnx", "torchscript"],
        },
        begin_release=True,
        reason="new rows",
    )
    for stage in STAGES[STAGES.index("smoked") :]:
        advance(workspace, stage)


def computed(workspace: Workspace, split: str) -> tuple[int, int, float, float]:
    """Rows of v2's split that v1 did not train on, those that it did, and both programs' accuracy on the former."""
    with workspace.snapshot() as session:
        facts = ProjectFacts(session, NAME)
        runs = [body["run_id"] for _, body in entries(session, NAME, ModelRegistered.name)]
    smokes = [workspace.run_directory(NAME, str(facts.rows_run(run))) for run in runs]
    first, second = (_held_out(smoke) for smoke in smokes)
    known = (workspace.path.parent / "code" / "iris.csv").read_text().splitlines()[1:151]
    held = {tuple(row) for inputs, _ in first.values() for row in inputs.tolist()}
    trained = {tuple(np.array(line.split(",")[:4], np.float32).tolist()) for line in known} - held
    inputs, targets = second[split]
    kept = [place for place, row in enumerate(inputs.tolist()) if tuple(row) not in trained]
    shares = [_accuracy(workspace.run_directory(NAME, run), inputs[kept], targets[kept]) for run in runs]
    return len(kept), len(inputs) - len(kept), shares[0], shares[1]


def _held_out(smoke: RunDirectory) -> dict[str, tuple[Rows, Rows]]:
    """Inputs and targets of each held-out split."""
    fixed = smoke.part(FixedRows).as_dict()["splits"]
    return {
        name: (
            np.load(smoke.artifacts / one["inputs"]["input"]["path"]),
            np.load(smoke.artifacts / one["target"]["path"]),
        )
        for name, one in fixed.items()
    }


def _accuracy(export: RunDirectory, inputs: Rows, targets: Rows) -> float:
    program = onnxruntime.InferenceSession(str(export.artifacts / str(export.part(Program).path)))
    (outputs,) = program.run(None, {program.get_inputs()[0].name: inputs})
    return float((outputs.argmax(1) == targets).mean())


def require_compared(workspace: Workspace) -> None:
    """Both versions' figures on the later one's rows, against those computed apart."""
    compared = registry.compare_models(workspace, NAME, "production", "latest")
    assert (compared.first, compared.second, compared.rows_of, compared.not_compared) == ("v1", "v2", "v2", None)
    test = compared.splits["test"]
    assert test.left_out == {}, "a row that the first release tested on stays a test row"
    assert [*compared.splits["validation"].left_out] == ["v1 was trained on them"]
    for split, one in compared.splits.items():
        left = sum(one.left_out.values())
        assert (one.rows, left, one.first["accuracy"], one.second["accuracy"]) == computed(workspace, split)
    assert test.interval is not None
    assert test.difference == pytest.approx(test.second["accuracy"] - test.first["accuracy"])
    assert test.interval[0] <= test.difference <= test.interval[1] < 0
    assert test.verdict == "worse"
    assert str(compared.tested) == "30 of 30 are as they were: test rows"
    own = compared.on_tested
    assert own is not None
    assert (own.rows, own.difference) == (30, pytest.approx(-0.1)), "3 right by v1 alone"
    assert test.rows > 30
    assert compared.next is not None
    assert compared.next.tool == "models"
    assert sum(int(told.rpartition(" of ")[2]) for told in test.by_class.values()) == test.rows
    assert set(test.by_class) == {"0", "1", "2"}
    (part,) = test.slices.values()
    assert 0 < part.rows < test.rows
    assert part.difference is not None
    assert part.difference < 0
    back = registry.compare_models(workspace, NAME, "v2", "v1").splits["test"]
    assert (back.verdict, back.interval) == ("better", pytest.approx([-test.interval[1], -test.interval[0]]))


def require_same_program_for_pytorch(folder: Path) -> None:
    """The card's lines open the program that was asked for and call it; it answers as the certified one."""
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    of_row = code.replace("torch.zeros(1, 4)", "torch.tensor([[5.1, 3.5, 1.4, 0.2]])")
    shown = [
        subprocess.run([sys.executable, "-c", one], cwd=folder, capture_output=True, text=True, check=True).stdout
        for one in (code, of_row)
    ]
    program = onnxruntime.InferenceSession(folder / "model.onnx")
    (outputs,) = program.run(None, {program.get_inputs()[0].name: np.array([[5.1, 3.5, 1.4, 0.2]], np.float32)})
    assert shown[0] != shown[1]
    found = [float(one) for one in re.findall(r"\d[\d.e-]*", shown[1])]
    assert found == pytest.approx((np.exp(outputs[0]) / np.exp(outputs[0]).sum()).tolist(), abs=1e-3)


@pytest.mark.requirement("REG-1", "CKPT-6", "GATE-5")
def test_a_worse_release_is_refused_on_rows_that_neither_trained_on_and_goes_in_by_grant_and_out_again(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = at("finished")
    first = digest_path(workspace.project_folder(NAME) / "final_model")
    release_worse(workspace)
    with pytest.raises(GateRefusedError, match="not_worse_on_test"):
        registry.promote(workspace, NAME, "latest")
    assert registry.promote(workspace, NAME, "v1", why="the first").before is None

    require_compared(workspace)

    with pytest.raises(
        GateRefusedError, match=r"does not move to v2.*not_worse_on_test: measured test: accuracy -"
    ) as met:
        registry.promote(workspace, NAME, "v2")
    assert registry.list_models(workspace, NAME).production == "v1"
    assert decide(workspace, met.value.details["request"], granted=True, by=OWNER).state == "granted"
    moved = registry.promote(workspace, NAME, "v2", why="the owner wants it")
    assert (moved.before, moved.by_grant) == ("v1", met.value.details["request"])
    assert moved.back == "promote_model(project='flowers', version='v1')"
    assert moved.beside == registry.compare_models(workspace, NAME, "v1", "v2").in_words()
    assert moved.beside.startswith("v2 is shown worse than v1: accuracy ")
    assert digest_path(Path(moved.folder)) != first
    require_same_program_for_pytorch(Path(moved.folder))
    assert registry.promote(workspace, NAME, "previous", why="it was worse").version == "v1"
    with pytest.raises(GateRefusedError) as again:
        registry.promote(workspace, NAME, "previous")
    assert again.value.details["request"] != met.value.details["request"], "a grant is for one move"
    link = Path(moved.folder)
    assert digest_path(link) == first, "the folder of production follows it"

    listed = registry.list_models(workspace, NAME)
    (link.parent.parent / "production").unlink()
    registry.follow_all(workspace)
    assert digest_path(link) == first, "a server that starts leads the links where the ledger has them"
    assert [(one.version, one.aliases) for one in listed.versions] == [(2, []), (1, ["production"])]
    assert listed.moves[1] == "production v2 (before: v1) by an agent by the owner's grant: the owner wants it"
    print_path(f"{NAME}@production", workspace.path)
    assert capsys.readouterr().out.strip() == str(link) == moved.folder
    assert folder_of(f"{NAME}@production", workspace.path) == link.parent
    second = digest_path(workspace.project_folder(NAME) / "final_model")
    assert digest_path(registry.model_folder(workspace, NAME, "v2")) == second
    report = verify_workspace(workspace.path)
    assert (report.problems, report.checked["promotions"], report.checked["served"]) == ([], 3, 3)
    spoil(workspace)
    weigh_the_loss_otherwise(workspace)


def weigh_the_loss_otherwise(workspace: Workspace) -> None:
    """Versions of two losses are not compared by the loss: the later run's configuration and the goal say so."""
    with workspace.session() as session:
        get_project(session, NAME).goal = {"metric": "loss", "direction": "minimize", "target": 1.0}
    assert registry.compare_models(workspace, NAME, "v1", "v2").not_compared is None
    with workspace.snapshot() as session:
        run = registered(session, workspace, NAME).model(2).run_id
    path = workspace.run_directory(NAME, run).path / "run.json"
    smoothed = '"loss": {"use": "cross_entropy", "args": {"label_smoothing": 0.5}}'
    path.write_text(path.read_text().replace('"loss": "cross_entropy"', smoothed))
    told = registry.compare_models(workspace, NAME, "v1", "v2").not_compared
    assert told is not None
    assert told.startswith("loss is of another loss in v1")


def spoil(workspace: Workspace) -> None:
    """What is served and is not what was released is found, and not served."""
    home = workspace.project_folder(NAME) / "served"
    card = home / "v2" / "final_model" / "README.md"
    text = card.read_bytes()
    card.write_bytes(text + b"Better than it is.")
    (home / "v7").mkdir()
    (home / "production").unlink()
    (home / "production").symlink_to("v2")
    assert verify_workspace(workspace.path).problems == [
        "project flowers: served/production leads to v2, and the ledger has v1 there",
        "project flowers: served/v2/final_model/README.md is not as it was released",
        "project flowers: served/v7 was added by hand",
    ]
    with pytest.raises(IntegrityError, match="final_model/README.md below"):
        registry.model_folder(workspace, NAME, "v2")
    other = workspace.path / "other"
    (home / "v1" / "final_model" / "__pycache__").mkdir()
    registry.model_folder(workspace, NAME, "v1")
    assert not (home / "v1" / "final_model" / "__pycache__").exists(), "bytecode that an import has left"
    other.mkdir()
    (home / "v1" / "final_model" / "predict").symlink_to(other)
    with pytest.raises(IntegrityError, match="final_model/predict below"):
        registry.model_folder(workspace, NAME, "v1")
    (home / "v1" / "final_model" / "predict").unlink()
    (home / "v2").rename(home / ".aside")
    assert digest_path(registry.model_folder(workspace, NAME, "v2") / "README.md") == digest_bytes(text)
    (home / "production").unlink()
    (home / "production").mkdir()
    with pytest.raises(StorageError, match=r"production could not be led to v1.*"):
        registry.model_folder(workspace, NAME, "production")
