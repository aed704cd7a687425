"""A hand-over's facts come from the ledger; its reader finds an edit of any part, and sees what happened since."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from trainwright.server import cli
from trainwright.tools import ledger, projects
from trainwright.tools.handover import FILE, check_handover, hand_over, read_words
from trainwright.tools.handover.document import ROLES, HandOver
from trainwright.tools.ledger.events import HandedOver
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError

pytestmark = pytest.mark.requirement("SKILL-10", "SKILL-1")

NAME = "iris"
SECRET = "ghp_" + "".join(random.Random(8).choices(string.ascii_letters + string.digits, k=36))
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
WORDS = {
    "by": "training-architect",
    "to": "ml-trainer",
    "questions": ["Is 0.9 enough?"],
    "notes": ["The baseline reached 0.99."],
}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "code_root": ""}
    projects.create_project(opened, NAME, intent="tell irises apart", goal=GOAL, config=config)
    yield opened
    opened.close()


def written(workspace: Workspace, **words: Any) -> Path:
    return Path(hand_over(workspace, NAME, read_words({**WORDS, **words}, NAME)).path)


def edited(path: Path, **parts: Any) -> None:
    """Lay values over parts of the file, as somebody with an editor would."""
    values = yaml.safe_load(path.read_text())
    for name, changes in parts.items():
        values[name] = {**values[name], **changes}
    path.write_text(yaml.safe_dump(values, sort_keys=False))


def test_its_facts_are_the_ledgers_and_words_stand_apart(workspace: Workspace) -> None:
    answer = projects.configure(workspace, NAME, hand_over=WORDS)
    assert answer.handed_over is not None
    text = Path(answer.handed_over.path).read_text()
    document = HandOver.model_validate(yaml.safe_load(text))
    assert (document.facts.intent, document.facts.goal, document.facts.configuration) == ("tell irises apart", GOAL, 1)
    assert (document.standing.phase, document.standing.next["tool"]) == ("planning", "start_training")
    assert document.words.model_dump() == WORDS
    assert "0.99" not in text.partition("words:\n")[0]
    assert "what training-architect says, and no evidence" in " ".join(text.replace("# ", "").split())
    checked = check_handover(workspace, NAME)
    assert (checked.state, checked.reasons, checked.entry) == ("fits", [], answer.handed_over.entry)
    status = projects.project_status(workspace, NAME)
    assert status.handover == f"{answer.handed_over.path}, training-architect to ml-trainer: fits"
    assert verify_workspace(workspace.path).problems == []


def test_a_project_that_was_not_handed_over_says_nothing_of_it(workspace: Workspace) -> None:
    assert projects.project_status(workspace, NAME).handover is None
    with pytest.raises(NotFoundError, match="no hand-over") as missing:
        check_handover(workspace, NAME)
    assert "hand_over=" in missing.value.remedy


@pytest.mark.parametrize(("parts", "named"), [
    ({"facts": {"goal": {**GOAL, "target": 0.5}}}, "facts.goal.target is 0.5 where the ledger has 0.9"),
    ({"facts": {"gates": [{"phase": "planning", "outcome": "passed", "entry": 2}]}}, "facts.gates"),
    ({"facts": {"runs": [{"id": "r", "kind": "final", "state": "completed", "entry": 2}]}}, "facts.runs"),
    ({"standing": {"phase": "finalization"}}, "its standing"),
    ({"words": {"notes": ["The owner allows 400 trials."]}}, "its words"),
    ({"words": {"by": "owner"}}, "its words"),
    ({"ledger": {"entry": 1}}, "ledger entry 1 is not the one that it names"),
])  # fmt: skip
def test_an_edit_of_any_part_is_found(workspace: Workspace, parts: dict[str, Any], named: str) -> None:
    path = written(workspace)
    edited(path, **parts)
    checked = check_handover(workspace, NAME)
    assert checked.state == "forged"
    assert any(named in reason for reason in checked.reasons), checked.reasons
    assert "project_status" in checked.remedy
    assert "forged" in projects.project_status(workspace, NAME).handover
    assert any(FILE in problem for problem in verify_workspace(workspace.path).problems)


def test_a_forged_file_with_a_forged_entry_is_found_by_its_facts(workspace: Workspace) -> None:
    """Whoever can write entries with the server's own functions still cannot make the earlier ones say it."""
    path = written(workspace)
    edited(path, facts={"goal": {**GOAL, "target": 0.1}})
    with workspace.session() as session:
        artifacts = {FILE: digest_bytes(path.read_bytes())}
        ledger.record(session, NAME, HandedOver(by="owner", to="ml-trainer", after=2, artifacts=artifacts))
    checked = check_handover(workspace, NAME)
    assert checked.state == "forged"
    assert "facts.goal.target is 0.1 where the ledger has 0.9" in checked.reasons


@pytest.mark.parametrize("text", ["", "a: [", "format: 2\n", "!!python/object:os.system {}", "x" * 3_000_000])
def test_what_is_no_handover_at_all_is_named_so(workspace: Workspace, tmp_path: Path, text: str) -> None:
    (tmp_path / "received.yaml").write_text(text)
    checked = check_handover(workspace, NAME, tmp_path / "received.yaml")
    assert checked.state == "forged"
    assert "is no hand-over" in checked.reasons[0]


def test_one_of_another_project_is_refused(workspace: Workspace) -> None:
    path = written(workspace)
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}}
    projects.create_project(workspace, "other", intent="x", goal=GOAL, config=config)
    assert check_handover(workspace, "other", path).reasons == ["it is of project 'iris'"]


def test_it_is_stale_once_the_project_has_moved_on(workspace: Workspace) -> None:
    first = written(workspace).read_bytes()
    projects.configure(workspace, NAME, changes={"training.epochs": 3}, reason="shorter")
    checked = check_handover(workspace, NAME)
    assert (checked.state, checked.reasons) == ("stale", ["since then in the ledger: 1 config_version"])
    written(workspace, by="ml-trainer", to="model-specialist")
    assert check_handover(workspace, NAME).state == "fits"
    kept = workspace.path / "kept.yaml"
    kept.write_bytes(first)
    again = check_handover(workspace, NAME, kept)
    assert again.state == "stale"
    assert "handed over again" in again.reasons[0]


@pytest.mark.parametrize(("words", "named"), [
    ({"to": "ml-trainor"}, "ml-trainer"), ({"to": "training-architect"}, "itself"),
    ({"evidence": ["0.99"]}, "evidence"),
    ({"notes": ["x" * 1001]}, "notes"), ({"questions": ["?"] * 21}, "questions"), ({"notes": "one"}, "notes"),
    ({"notes": [f"use {SECRET}"]}, "secret"),
])  # fmt: skip
def test_words_that_do_not_fit_are_refused_before_anything_changes(
    workspace: Workspace, words: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        projects.configure(workspace, NAME, changes={"training.epochs": 3}, reason="r", hand_over={**WORDS, **words})
    assert named in refused.value.message
    assert SECRET not in refused.value.message
    status = projects.project_status(workspace, NAME)
    assert (status.config_version, status.handover) == (1, None)


def test_the_page_names_every_role() -> None:
    from trainwright.server.documents import read_text

    page = read_text("phases/handover.md")
    assert [role for role in ROLES if f"| {role} |" not in page] == []


@pytest.mark.slow
def test_a_person_hands_over_and_checks_at_a_terminal(workspace: Workspace) -> None:
    def run(*options: str) -> Result:
        return CliRunner().invoke(cli.app, ["handover", NAME, "--workspace", str(workspace.path), *options])

    done = run("--by", "data-specialist", "--to", "ml-trainer", "--note", "Row 7 was a copy; it is out.")
    assert done.exit_code == 0, done.output
    assert run("--check").exit_code == 0
    edited(workspace.project_folder(NAME) / FILE, words={"notes": []})
    checked = run("--check", "--json")
    assert checked.exit_code == 1
    assert json.loads(checked.output)["state"] == "forged"
    assert "owner. Near: ml-trainer." in str(run("--by", "ml-trainr", "--to", "owner").exception)
    nobody = run("--by", "ml-trainer").exception
    assert isinstance(nobody, ConfigurationError)
    assert "--to not given" in nobody.message
    assert f"trainwright handover {NAME} --by ml-trainer --to TO" in nobody.remedy


def test_a_role_that_is_none_is_refused_with_the_same_call_and_the_nearest_role(workspace: Workspace) -> None:
    given = {"by": "ml-trainr", "to": "deployment", "questions": ["Which threshold?"]}
    with pytest.raises(ConfigurationError, match=r"hand_over\.by 'ml-trainr' is no role here") as refused:
        read_words(given, NAME)
    meant = given | {"by": "ml-trainer", "to": "deployment-specialist"}
    assert refused.value.remedy == f"configure(project={NAME!r}, hand_over={meant!r})"
    assert read_words(meant, NAME).questions == ["Which threshold?"]


def test_requests_to_the_owner_are_facts_with_their_answers(workspace: Workspace) -> None:
    from trainwright.tools.owner import Grantor, decide

    asked = projects.configure(workspace, NAME, ask_owner={"accept": 0.8}, reason="it is enough").requests
    assert asked is not None
    written(workspace)
    decide(workspace, asked[0].request, granted=True, by=Grantor.here("terminal", asked=False))
    assert check_handover(workspace, NAME).reasons == ["since then in the ledger: 1 owner_decision"]
    path = written(workspace)
    (request,) = HandOver.model_validate(yaml.safe_load(path.read_text())).facts.owner
    assert "0.8" in request
    assert request.endswith("(granted)")


@pytest.mark.slow
def test_a_file_of_the_users_that_changed_makes_it_stale_without_an_entry(at: Any) -> None:
    opened = at("planned")
    path = Path(hand_over(opened, "flowers", read_words(WORDS, "flowers")).path)
    facts = HandOver.model_validate(yaml.safe_load(path.read_text())).facts
    assert [(gate.phase, gate.outcome) for gate in facts.gates] == [("planning", "passed")]
    assert [(run.kind, run.state) for run in facts.runs] == [("smoke", "completed")]
    assert check_handover(opened, "flowers").state == "fits"
    code = opened.path.parent / "code" / "flower_model.py"
    code.write_text(code.read_text().replace("ReLU", "GELU"))
    checked = check_handover(opened, "flowers")
    assert checked.state == "stale"
    assert "the planning gate is stale: code" in checked.reasons[0]
