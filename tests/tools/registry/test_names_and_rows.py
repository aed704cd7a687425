"""What needs no training: names of versions, aliases by their moves, rows read for an earlier program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml

from trainwright.tools import ledger, registry
from trainwright.tools.ledger.aliases import aliases_after, archived_after
from trainwright.tools.ledger.events import ModelPromoted
from trainwright.tools.registry.comparing import _recoding
from trainwright.tools.registry.versions import Registered
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, GateRefusedError, NotFoundError
from trainwright.trainer.clean_room.recoded import Recoded
from trainwright.trainer.run.evidence import Data

At = Callable[[str], Workspace]
pytestmark = pytest.mark.requirement("REG-1")


def moves(*steps: tuple[str, int | None]) -> list[ModelPromoted]:
    return [
        ModelPromoted(alias=alias, version=version, before=before, outcome="moved", by="x")
        for place, (alias, version) in enumerate(steps)
        for before in [next((one for name, one in reversed(steps[:place]) if name == alias), None)]
    ]


def versions(*steps: tuple[str, int | None]) -> Registered:
    return Registered("churn", "accuracy", dict.fromkeys(range(1, 6), (0, None)), moves(*steps), [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "version"),
    [("2", 2), ("v2", 2), ("churn@v2", 2), (" staging ", 4), ("churn@production", 3), ("latest", 5), ("previous", 1)],
)
def test_a_version_is_found_by_number_alias_and_place(name: str, version: int) -> None:
    assert versions(("production", 1), ("staging", 4), ("production", 3)).version(name) == version


@pytest.mark.parametrize("name", ["v6", "canary", "other@v2", "v2; rm", "", "previous"])
def test_an_unknown_version_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(NotFoundError, match="has no version") as met:
        versions(("production", 1)).version(name)
    assert "v1, v2, v3, v4, v5, production" in met.value.remedy


def test_previous_is_what_the_last_move_replaced_however_often_it_was_there() -> None:
    steps = [("production", version) for version in (2, 1, 2)]
    assert versions(*steps).version("previous") == 1
    assert versions(*steps, ("staging", 4), ("production", 1)).version("previous") == 2


def test_an_alias_names_one_version_and_archived_is_a_mark_that_another_alias_takes_back() -> None:
    done = moves(
        ("production", 1), ("archived", 1), ("archived", 2), ("production", 3), ("canary", 3), ("canary", None)
    )
    assert aliases_after(done) == {"production": 3}
    assert archived_after(done) == {1, 2}
    assert archived_after([*done, *moves(("staging", 2))]) == {1}


def test_rows_of_a_later_encoding_are_read_by_the_earlier_programs_columns_and_codes() -> None:
    kinds = [{"name": "plan", "kind": "category"}, {"name": "age", "kind": "number"}]
    earlier = Data(
        columns=kinds, places={"age": 0, "plan": 1}, categories={"plan": ["basic", "family"]},
        preprocessing_digest="1", input={"shape": [2]},
    )  # fmt: skip
    later = Data(
        columns=[*kinds, {"name": "new", "kind": "number"}], places={"plan": 0, "new": 1, "age": 2},
        categories={"plan": ["basic", "business", "family"]}, preprocessing_digest="2", input={"shape": [3]},
    )  # fmt: skip
    recode = _recoding(later, earlier)
    assert isinstance(recode, dict)

    class Seen:
        batch, versions = None, {}

        def __call__(self, inputs: Any) -> Any:
            return inputs

    rows = np.array([[0, 7, 30], [1, 7, 40], [2, 7, 50], [-1, 7, 60], [np.nan, 7, 70]], dtype=np.float32)
    seen = Recoded(Seen(), recode)({"input": rows})["input"]
    assert np.array_equal(seen, [[30, 0], [40, -1], [50, 1], [60, -1], [70, np.nan]], equal_nan=True)
    assert rows[2, 0] == 2, "the later program's rows stay as they are"
    assert _recoding(earlier, later) == "the later version has no column 'new', which the earlier one reads"
    changed = later.model_copy(update={"columns": [{"name": "age", "kind": "category"}, *kinds[:1]]})
    assert _recoding(changed, earlier) == "column 'age' is read as another kind"
    assert _recoding(later.model_copy(update={"class_names": ["no", "yes"]}), earlier) == (
        "their classes or targets differ"
    )


@pytest.mark.slow
def test_an_owner_keeps_an_alias_bounds_are_held_and_a_move_past_the_gate_is_found(at: At) -> None:
    workspace = at("finished")
    with pytest.raises(ConfigurationError, match="'v7' is not a name"):
        registry.promote(workspace, "flowers", "v1", "v7")
    assert registry.promote(workspace, "flowers", "v1", "staging").before is None
    settings = workspace.path / "settings.yaml"
    owners = yaml.safe_load(settings.read_text()) | {"promotion": {"max_bytes": 10, "needs_grant": ["canary"]}}
    settings.write_text(yaml.safe_dump(owners))
    workspace = workspace.refreshed()
    with pytest.raises(GateRefusedError, match="bytes: measured [0-9]+; required at most 10, by the owner"):
        registry.promote(workspace, "flowers", "v1")
    with pytest.raises(GateRefusedError, match="the owner keeps canary"):
        registry.promote(workspace, "flowers", "v1", "canary")
    listed = registry.list_models(workspace, "flowers")
    assert listed.versions[0].aliases == ["staging"]
    assert listed.next is not None
    assert listed.next.tool == "promote_model"
    assert verify_workspace(workspace.path).problems == []
    with workspace.session() as session:
        forged = ModelPromoted(alias="production", version=1, before=None, outcome="moved", by="x", grant="r1-abc")
        ledger.append(session, "flowers", forged.name, forged.body())
        forged = ModelPromoted(alias="production", version=9, before=3, outcome="moved", by="x")
        ledger.append(session, "flowers", forged.name, forged.body())
    told = " ".join(verify_workspace(workspace.path).problems)
    for fault in ("grant that it names was not given", "no version 9", "at 1 before, not at 3", "gate had not passed"):
        assert fault in told
