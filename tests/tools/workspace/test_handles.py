"""Runs and studies by names that a model can hold."""

from datetime import UTC, datetime, timedelta

import pytest

from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import handles, run_named, study_named, with_handles
from trainwright.tools.workspace.tables import Project, Run, Study
from trainwright.trainer.base.errors import NotFoundError

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = {
    "smoke-digits-20260101-100000-aaaaa1": ("digits", "smoke", "completed", None),
    "baseline-digits-20260101-100001-aaaaa2": ("digits", "baseline", "failed", None),
    "baseline-digits-20260101-100002-aaaaa3": ("digits", "baseline", "running", None),
    "baseline-digits-2-20260101-100003-aaaaa4": ("digits-2", "baseline", "stopped", None),
    "probe-digits-20260101-100004-aaaaa5": ("digits", "probe", "completed", None),
    "trial-digits-20260101-100005-aaaaa6": ("digits", "trial", "completed", "study-digits-20260101-100004-aaaaa9"),
}
SMOKE, FAILED, RUNNING, OTHER, PROBE, TRIAL = RUNS


@pytest.fixture
def session(tmp_path):
    opened = Workspace.open(tmp_path / "workspace")
    with opened.session() as session:
        for name in ("digits", "digits-2", "empty"):
            session.add(Project(name=name, intent="", goal={}, limits={}, code_root="."))
        session.flush()
        study = Study(
            id="study-digits-20260101-100004-aaaaa9", project="digits", search={}, objective={}, base_values={},
            base_config_digest="",
        )  # fmt: skip
        session.add(study)
        session.flush()
        for place, (name, (project, kind, state, study_id)) in enumerate(RUNS.items()):
            session.add(
                Run(id=name, project=project, kind=kind, state=state, study=study_id, config_digest="", seed=1,
                    base_config_digest="", created_at=BEGAN + timedelta(seconds=place))
            )  # fmt: skip
    with opened.snapshot() as reading:
        yield reading
    opened.close()


@pytest.mark.requirement("MCP-5")
@pytest.mark.parametrize(
    ("name", "project", "meant"),
    [
        ("digits/baseline-2", None, RUNNING),
        ("digits/baseline-1", None, FAILED),
        ("baseline-1", "digits", FAILED),
        ("digits/baseline", None, RUNNING),
        ("digits-2/baseline-1", "digits", OTHER),
        ("digits/latest", None, PROBE),
        ("latest", None, PROBE),
        ("latest", "digits-2", OTHER),
        ("digits-2", None, OTHER),
        (None, None, RUNNING),
        (None, "digits-2", OTHER),
        (SMOKE, None, SMOKE),
        (" digits/trial-1 ", None, TRIAL),
    ],
)
def test_a_run_is_found_by_whatever_names_it(session, name, project, meant):
    assert run_named(session, name, project=project) == meant


def test_the_run_that_a_call_needs_is_preferred(session):
    assert run_named(session, None, project="digits", prefer=("failed",)) == FAILED


def test_studies_have_handles_too(session):
    for name in ("digits/study-1", "latest", "digits", None):
        assert study_named(session, name) == "study-digits-20260101-100004-aaaaa9"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("digits/baseline-3", "digits/baseline-2"),
        ("digts/smoke-1", "digits/smoke-1"),
        ("smoke-dig", SMOKE),
        ("", "digits"),
        ("%", "digits"),
    ],
)
def test_an_unknown_run_names_what_is_near(session, name, near):
    with pytest.raises(NotFoundError) as raised:
        run_named(session, name)
    assert near in raised.value.remedy
    with pytest.raises(NotFoundError, match="in project empty"):
        run_named(session, None, project="empty")


@pytest.mark.requirement("MCP-5")
def test_long_ids_are_told_by_their_handles_and_paths_stay_as_they_are(session):
    path = f"/w/projects/digits/runs/{RUNNING}/plots/a.png"
    plot = f"plots/{RUNNING}.png"
    said = {"run_id": RUNNING, "message": f"Run {FAILED}: ended.\n{SMOKE} too", "files": [path, plot], SMOKE: 1}
    known = handles(session, [RUNNING, f"Run {FAILED}: x", SMOKE])
    assert with_handles(said, known) == {
        "run_id": "digits/baseline-2",
        "message": "Run digits/baseline-1: ended.\ndigits/smoke-1 too",
        "files": [path, plot],
        "digits/smoke-1": 1,
    }
