"""Following in a server costs nothing where no run is alive."""

import threading

import pytest

from trainwright.server.context import Following
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project, Run

pytestmark = pytest.mark.requirement("DIAG-11")


def followers():
    """The threads that follow runs."""
    return [thread for thread in threading.enumerate() if thread.name == "follower"]


def test_a_workspace_full_of_ended_runs_has_no_follower_and_one_run_begins_it(workspace):
    opened = Workspace.open(workspace)
    with opened.session() as session:
        session.add(Project(name="iris", goal={}, limits={}, code_root="."))
    with opened.session() as session:
        for number in range(300):
            own = {"project": "iris", "kind": "baseline", "config_digest": "a", "base_config_digest": "a", "seed": 1}
            session.add(Run(id=f"baseline-iris-{number}", state="completed", sealed=True, **own))
    following = Following(lambda _project, _run: None)
    try:
        following.begin(opened)
        assert not followers()
        with opened.session() as session:
            session.add(Run(id="baseline-iris-new", **own))
        following.begin(opened)
        assert len(followers()) <= 1, "one at the most, which ends, for nobody works on that run"
        for thread in followers():
            thread.join(60)
        following.begin(opened)
        assert not followers(), "nothing was written since"
    finally:
        following.end()
        opened.close()
