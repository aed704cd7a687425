"""What a sentence names for after the release: the finished project leads to it, step by step (Q159)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools import projects, registry
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.registry.scoring import score_model
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import now

SAID = "tell irises apart, then add new_cases.csv, make a second version, compare both and promote the better one"


@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_a_finished_project_leads_to_the_steps_that_its_intent_names_for_after_the_release(
    created_with: Callable[..., Workspace],
) -> None:
    workspace = created_with("finished", intent=SAID)
    answer = projects.advance(workspace, NAME)
    assert (answer.ended, answer.steps) == ("finished", [])
    assert answer.next is not None
    assert (answer.next.tool, answer.next.arguments) == ("configure", {"project": NAME, "begin_release": True})
    assert "then add new_cases.csv" in answer.next.why
    assert "making data.args.path a list that keeps the old file" in answer.next.why
    (first,) = registry.list_models(workspace, NAME).versions
    with workspace.session() as session:
        second = {
            "version": 2,
            "run_id": first.lineage["run"],
            "checkpoint_digest": "0" * 64,
            "metrics": {},
            "lineage": {},
        }
        record(session, NAME, ModelRegistered.model_validate(second | {"created_at": now()}))
    compared = projects.advance(workspace, NAME).next
    assert compared is not None
    assert (compared.tool, compared.arguments["compare"]) == ("models", ["v1", "v2"])
    assert compared.why.endswith("promote_model then puts the one you choose in production"), "neither may be better"
    moved = {"alias": "production", "before": None, "outcome": "moved", "by": "me"}
    for alias, production in (("staging", None), ("production", "v1; final_model/ is v2")):
        assert projects.advance(workspace, NAME).next is not None
        with workspace.session() as session:
            record(session, NAME, ModelPromoted.model_validate(moved | {"version": 1, "alias": alias}))
        assert projects.read_status(workspace, NAME).production == production
    assert projects.advance(workspace, NAME).next is None, "the choice was made: nothing is left of the sentence"
    with workspace.session() as session:
        record(session, NAME, ModelPromoted.model_validate(moved | {"version": 2, "before": 1}))
    assert projects.read_status(workspace, NAME).production == "v2"


@pytest.mark.requirement("PHASE-11")
@pytest.mark.parametrize(
    ("behind", "score"),
    [("score fresh.csv", "fresh.csv"), ("score gone.csv", None), ("score fresh.csv and other.csv", None)],
)
def test_a_file_that_is_to_be_scored_later_is_named_where_there_is_no_other(
    created_with: Callable[..., Workspace], behind: str, score: str | None
) -> None:
    workspace = created_with("finished", intent=f"tell irises apart; once it is released, {behind}")
    (workspace.path.parent / "code" / "fresh.csv").touch()
    call = projects.advance(workspace, NAME).next
    assert call is not None
    assert (call.tool, call.arguments) == ("models", {"project": NAME} | ({"score": score} if score else {}))
    assert ("models(score=FILE)" in call.why) == (score is None)


@pytest.mark.requirement("PHASE-11", "GATE-7")
@pytest.mark.parametrize(
    ("behind", "begins"),
    [
        ("make a second version without outliers.csv", True),
        ("do the same with outliers.csv in a separate project", False),
        ("outliers.csv dazu, aber nicht jetzt", False),
        ("roll back if customers complain", False),
    ],
)
def test_no_file_is_added_to_what_a_second_version_is_trained_on(
    created_with: Callable[..., Workspace], behind: str, begins: bool
) -> None:
    workspace = created_with("finished", intent=f"tell irises apart; after the release, {behind}")
    (workspace.path.parent / "code" / "outliers.csv").touch()
    call = projects.advance(workspace, NAME).next
    assert (call and call.arguments) == ({"project": NAME, "begin_release": True} if begins else None)
    if begins:
        begun = projects.configure(workspace, NAME, begin_release=True, reason="fewer flowers").next
        assert begun is not None
        assert begun.tool == "pass_gate"


@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_a_score_leads_to_the_second_version_whose_rows_the_same_call_adds(
    created_with: Callable[..., Workspace],
) -> None:
    said = "tell irises apart; once it is released, say how good it is on fresh.csv, then add it and retrain"
    workspace = created_with("finished", intent=said)
    code = workspace.path.parent / "code"
    table = (code / "iris.csv").read_text().splitlines()
    (code / "fresh.csv").write_text("\n".join([table[0], *(f"9{row}" for row in table[1:31])]) + "\n")
    call = projects.advance(workspace, NAME).next
    assert call is not None
    assert (call.tool, call.arguments) == ("models", {"project": NAME, "score": "fresh.csv"})
    scored = score_model(workspace, NAME, "fresh.csv")
    assert scored.next is not None
    assert scored.next.arguments == {"project": NAME, "begin_release": True}
    files = {"data.args.path": ["iris.csv", "fresh.csv"]}
    begun = projects.configure(workspace, NAME, begin_release=True, changes=files, reason="more flowers")
    assert begun.next is not None
    assert begun.next.tool == "start_training"
