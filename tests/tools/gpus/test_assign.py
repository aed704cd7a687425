"""Which GPUs a start is given: by the owner's list, by its study's first run, and by who waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.gpus import Assignment, Device, Waiter, assign
from trainwright.tools.gpus.assign import _kind_of, require_memory
from trainwright.tools.launchers.environment import Gpu
from trainwright.tools.ledger.events import RunStarted
from trainwright.tools.limits import reserve
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import now
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Environment

pytestmark = pytest.mark.requirement("TUNE-3")
VALUES: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
GIB = 1024**3
CONFIG = parse_config(VALUES)


def given(workspace: Workspace, study: str | None = None, **training: Any) -> Assignment:
    config = parse_config(VALUES | {"training": training})
    with workspace.session() as session:
        return assign(session, workspace, "digits", RunKind.TRIAL, config, study=study)


def started(workspace: Workspace, device: str, *, study: str = "study", **values: Any) -> None:
    """Leave the record of a study's run that trained on this device."""
    run = RunStarted(
        run_id=f"trial-{study}", kind="trial", label=None, seed=1, config_digest="", base_config_digest="",
        source_run=None, study=study, created_at=now(), **values,
    )  # fmt: skip
    with workspace.session() as session:
        ledger.append(session, "digits", run.name, run.body())
    directory = workspace.run_directory("digits", run.run_id)
    directory.artifacts.mkdir(parents=True)
    directory.write_evidence(Environment.model_validate({"fingerprint_basis": {"device": device, "world_size": 1}}))


def devices(*kinds: str) -> list[Device]:
    return [Device(Gpu(id=f"GPU-{number}", name=kind)) for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("here", "expected"), [(devices("A100", "A100"), "A100"), (devices("A100", "H100"), None), (devices(""), "")]
)
def test_a_run_waits_for_the_one_kind_that_it_may_use(here: Sequence[Device], expected: str | None) -> None:
    assert _kind_of(here) == expected


def test_gpus_are_hidden_where_the_owners_list_leaves_none(
    workspace: Workspace, owner_lists: Callable[..., None]
) -> None:
    owner_lists(a="A100")
    assert [gpu.id for gpu in given(workspace).gpus] == ["GPU-a"]
    (workspace.path / "settings.yaml").write_text("gpus: []\n")
    workspace.refreshed()
    assert given(workspace) == Assignment(hides_gpus=True)
    assert given(workspace, device="cpu") == Assignment(), "it takes none anyway"


def test_a_study_whose_gpus_are_all_gone_does_not_go_on_on_the_cpu(
    workspace: Workspace, make_project: Callable[..., str]
) -> None:
    make_project(workspace)
    started(workspace, "cuda", gpus=[{"id": "GPU-a", "name": "A100"}])
    (workspace.path / "settings.yaml").write_text("gpus: []\n")
    workspace.refreshed()
    with pytest.raises(LimitReachedError, match=r"run on 'A100'.*none at all") as raised:
        given(workspace, "study")
    assert not raised.value.details["waits"]
    assert given(workspace, "another").hides_gpus


def test_a_study_that_began_on_the_cpu_stays_there_and_reserves_no_gpu(
    workspace: Workspace, make_project: Callable[..., str], owner_lists: Callable[..., None]
) -> None:
    make_project(workspace)
    started(workspace, "cpu")
    started(workspace, "cuda", study="seen")
    owner_lists(a="A100")
    assert given(workspace, "study") == Assignment(hides_gpus=True)
    assert [gpu.id for gpu in given(workspace, "seen").gpus] == ["GPU-a"]
    with workspace.session() as session:
        project = get_project(session, "digits")
        for study, count in (("study", 0), ("seen", 1)):
            assert reserve(session, workspace, project, RunKind.TRIAL, CONFIG, study=study).gpus == count


def test_a_run_that_no_gpu_has_the_memory_for_is_refused_rather_than_waits() -> None:
    here = [Device(Gpu(id=f"GPU-{number}", memory_bytes=gib * GIB)) for number, gib in enumerate((24, 80))]
    require_memory(here, Waiter("ours", needed_bytes=60 * GIB))
    require_memory(here, Waiter("ours"))
    require_memory(devices("A100"), Waiter("ours", needed_bytes=60 * GIB))
    for many in (Waiter("ours", needed_bytes=90 * GIB), Waiter("ours", count=2, needed_bytes=60 * GIB)):
        with pytest.raises(LimitReachedError, match=r"needs [69]0\.0 GiB .* largest has 80\.0 GiB") as raised:
            require_memory(here, many)
        assert not raised.value.details["waits"]
        assert "loader.batch_size" in raised.value.remedy
