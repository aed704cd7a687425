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
    assert 'data.args.path a list, ["old.csv", "new.csv"]' in answer.next.why
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
def test_a_file_that_is_to_be_scored_later_is_named_with_its_call(created_with: Callable[..., Workspace]) -> None:
    workspace = created_with("finished", intent="tell irises apart; once it is released, score fresh.csv")
    call = projects.advance(workspace, NAME).next
    assert call is not None
    assert (call.tool, call.arguments) == ("models", {"project": NAME, "score": "fresh.csv"})


@pytest.mark.requirement("PHASE-11", "GATE-7")
def test_a_score_leads_to_the_second_version_and_that_to_the_new_rows(created_with: Callable[..., Workspace]) -> None:
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
    begun = projects.configure(workspace, NAME, begin_release=True, reason="more flowers")
    assert begun.next is not None
    assert begun.next.arguments["changes"] == {"data.args.path": ["iris.csv", "fresh.csv"]}
    assert projects.advance(workspace, NAME).ended == "decision"
    changed = projects.configure(workspace, NAME, changes=begun.next.arguments["changes"], reason="the new ones")
    assert changed.next is not None
    assert changed.next.tool == "start_training"
