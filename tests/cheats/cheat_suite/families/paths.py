"""Path traversal and links in every argument that names a file or becomes a part of one's name."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

refused = partial(cheat, by="tools", expected="refused", shows=())
OUT = (
    "../../../../etc/passwd",
    "/etc/passwd",
    "..",
    ".",
    "flowers/../../..",
    "..%2f..%2fetc",
    "a\\..\\..",
    "flowers\x00",
)


@refused(at="created", rule="is not a valid name")
def project_name_at_creation(scene: Scene) -> None:
    """Create a project whose name leads out of the workspace."""
    for name in (*OUT, "", "-rf", "a" * 64):
        scene.attempt("create_project", name=name, intent="x", goal=GOAL, config=CONFIG)


@refused(at="planned", rule="There is no project")
def project_name(scene: Scene) -> None:
    """Lead every tool that takes a project's name out of the workspace."""
    others: dict[str, dict[str, Any]] = {
        "project_status": {},
        "configure": {"changes": {"seed": 1}},
        "pass_gate": {"phase": "planning"},
        "start_training": {"kind": "smoke"},
        "diagnose_run": {},
        "start_tuning": {},
        "verify_reproducibility": {},
        "export_model": {},
    }
    for tool, arguments in others.items():
        for name in OUT[:3]:
            scene.attempt(tool, project=name, **arguments)


@refused(at="planned", rule="There is no run")
def run_id(scene: Scene) -> None:
    """Lead every tool that takes a run's id out of the workspace."""
    for tool in ("run_status", "list_checkpoints", "diagnose_run"):
        for name in (*OUT[:3], f"{scene.newest('smoke')}/../{scene.newest('smoke')}"):
            scene.attempt(tool, run_id=name)
    for tool in ("stop_training", "resume_training", "verify_reproducibility"):
        scene.attempt(tool, project=NAME, run_id=OUT[0])
    scene.attempt("plot_metrics", run_ids=[OUT[0]])
    scene.attempt("compare_runs", run_ids=[scene.newest("smoke"), OUT[0]])


@refused(at="planned", rule="There is no study")
def study_id(scene: Scene) -> None:
    """Lead the search's status out of the workspace."""
    for name in OUT:
        scene.attempt("tuning_status", study_id=name)


@refused(at="created", rule="no document|not a document")
def document_path(scene: Scene) -> None:
    """Read files of the machine as documents."""
    for path in (*OUT, "SKILL.md/../../../../etc/passwd", "phases/../../../tools/INDEX.md", "file:///etc/passwd"):
        scene.attempt("read_document", path=path)


@refused(at="created", rule="(?i)unknown|not found|no (document|run|project|resource)|invalid|not a")
def resource_uri(scene: Scene) -> None:
    """Read files of the machine as resources."""
    for uri in (
        "file:///etc/passwd",
        "trainwright://documents/../../../etc/passwd",
        "trainwright://documents/..%2F..%2F..%2Fetc%2Fpasswd",
        "trainwright://runs/..%2F..%2Fworkspace.sqlite/status",
        "trainwright://projects/..%2F../status",
    ):
        scene.attempt_read(uri)


@refused(at="planned", rule="None of these runs recorded")
def metric_name(scene: Scene) -> None:
    """Write a picture outside the workspace through the name of a metric."""
    for metric in ("../../../../tmp/x", "/tmp/x", "validation/../../../x"):
        scene.attempt("plot_metrics", run_ids=[scene.newest("smoke")], metric=metric)


@cheat(by="code", at="empty", rule="outside the code root", expected="refused")
def data_path(scene: Scene) -> None:
    """Train on a file outside the code root."""
    (scene.world.folder / "other.csv").write_text((scene.world.code / "iris.csv").read_text())
    data = CONFIG["data"] | {"args": {"path": "../other.csv", "target": "species"}}
    scene.attempt("create_project", name=NAME, intent="x", goal=GOAL, config=CONFIG | {"data": data})


@cheat(by="code", at="empty", rule="outside the code root", expected="refused")
def data_link(scene: Scene) -> None:
    """Train on a file outside the code root, through a link."""
    (scene.world.folder / "other.csv").write_text((scene.world.code / "iris.csv").read_text())
    (scene.world.code / "link.csv").symlink_to(scene.world.code / "iris.csv")
    scene.project({"data": CONFIG["data"] | {"args": {"path": "link.csv", "target": "species"}}})
    (scene.world.code / "link.csv").unlink()
    (scene.world.code / "link.csv").symlink_to(scene.world.folder / "other.csv")
    scene.train()


@cheat(by="code", at="empty", rule="outside the code root", expected="refused")
def code_path(scene: Scene) -> None:
    """Have code outside the code root imported."""
    (scene.world.folder / "other.py").write_text((scene.world.code / "flower_model.py").read_text())
    model = {"use": "../other.py:Net", "args": {"width": 16}}
    scene.attempt("create_project", name=NAME, intent="x", goal=GOAL, config=CONFIG | {"model": model})


@cheat(by="code", at="empty", rule="outside the code root|not an entry|no file", expected="refused")
def code_of_others(scene: Scene) -> None:
    """Name a library's function as the user's code."""
    scene.write_code("innocent.py", "from os import system\n")
    scene.project({"model": {"use": "innocent.py:system", "args": {"command": "true"}}})
    scene.train()
