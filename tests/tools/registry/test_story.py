"""A model's versions in use: two real releases, compared on the same rows, promoted, refused, granted, rolled back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME, STAGES, advance

from trainwright.server.commands.deploy import folder_of
from trainwright.server.commands.model import path as print_path
from trainwright.tools import projects, registry
from trainwright.tools.owner import Grantor, decide
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.base.errors import GateRefusedError

OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1", processes=["bash (1)"])
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
        changes={"training.epochs": 2, "optimizer.learning_rate": 0.013},
        begin_release=True,
        reason="new rows",
    )
    for stage in STAGES[STAGES.index("smoked") :]:
        advance(workspace, stage)


@pytest.mark.requirement("REG-1", "CKPT-6", "GATE-5")
def test_a_worse_release_is_refused_on_rows_that_neither_trained_on_and_goes_in_by_grant_and_out_again(
    at: At, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = at("finished")
    first = digest_path(workspace.project_folder(NAME) / "final_model")
    assert registry.promote(workspace, NAME, "latest", why="the first").version == "v1"
    release_worse(workspace)

    compared = registry.compare_models(workspace, NAME, "production", "latest")
    assert (compared.first, compared.second, compared.rows_of, compared.not_compared) == ("v1", "v2", "v2", None)
    test = compared.splits["test"]
    assert test.left_out == 0, "a row that the first release tested on stays a test row"
    assert compared.splits["validation"].left_out > 0, "of the validation rows the first one trained on some"
    assert test.interval is not None
    assert test.difference == pytest.approx(test.second["accuracy"] - test.first["accuracy"])
    assert test.interval[0] <= test.difference <= test.interval[1] < 0
    assert test.verdict == "worse"
    back = registry.compare_models(workspace, NAME, "v2", "v1").splits["test"]
    assert (back.verdict, back.interval) == ("better", pytest.approx([-test.interval[1], -test.interval[0]]))

    with pytest.raises(
        GateRefusedError, match=r"does not move to v2.*not_worse_on_test: measured test: accuracy -"
    ) as met:
        registry.promote(workspace, NAME, "v2")
    assert registry.list_models(workspace, NAME).production == "v1"
    assert decide(workspace, met.value.details["request"], granted=True, by=OWNER).state == "granted"
    moved = registry.promote(workspace, NAME, "v2", why="the owner wants it")
    assert (moved.before, moved.by_grant) == ("v1", met.value.details["request"])
    assert moved.back == "promote_model(project='flowers', version='v1')"
    assert digest_path(Path(moved.folder)) != first
    assert registry.promote(workspace, NAME, "previous", why="it was worse").version == "v1"
    link = Path(moved.folder)
    assert digest_path(link) == first, "the folder of production follows it"

    listed = registry.list_models(workspace, NAME)
    assert [(one.version, one.aliases) for one in listed.versions] == [(2, []), (1, ["production"])]
    assert listed.moves[1] == "production v2 (before: v1) by an agent by the owner's grant: the owner wants it"
    print_path(f"{NAME}@production", workspace.path)
    assert capsys.readouterr().out.strip() == str(link) == moved.folder
    assert folder_of(f"{NAME}@production", workspace.path) == link.parent
    second = digest_path(workspace.project_folder(NAME) / "final_model")
    assert digest_path(registry.model_folder(workspace, NAME, "v2")) == second
    report = verify_workspace(workspace.path)
    assert (report.problems, report.checked["promotions"]) == ([], 3)
