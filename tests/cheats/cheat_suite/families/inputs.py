"""Bombs, tags, floods, depths and odd letters: arguments that try the reader rather than the rule."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.worlds.flowers import CONFIG, GOAL, NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

refused = partial(cheat, by="tools", expected="refused", shows=("CONF-1",))
broken_settings = partial(cheat, by="files", at="planned", expected="refused", shows=("CONF-1", "GATE-4"))


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@broken_settings(rule="aliases are not allowed")
def yaml_bomb(scene: Scene) -> None:
    """Put a YAML bomb into the settings."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    (scene.world.workspace / "settings.yaml").write_text("\n".join(lines) + "\n")
    scene.attempt("project_status", project=NAME)


@broken_settings(rule="could not determine a constructor")
def yaml_tag(scene: Scene) -> None:
    """Have the settings run a command by a YAML tag."""
    mark = scene.world.folder / "ran"
    text = f"code_roots: !!python/object/apply:os.system ['touch {mark}']\n"
    (scene.world.workspace / "settings.yaml").write_text(text)
    scene.attempt("project_status", project=NAME)
    assert not mark.exists()


@broken_settings(rule="key given twice: trials")
def yaml_twice(scene: Scene) -> None:
    """Set a limit twice in the settings."""
    (scene.world.workspace / "settings.yaml").write_text("limits: {trials: 1, trials: 1000000}\n")
    scene.attempt("start_training", project=NAME, kind="baseline")


@refused(at="created", rule="`(config|changes)` = |`optimizer.use` = .* is not an entry")
def yaml_as_argument(scene: Scene) -> None:
    """Hand a configuration over as YAML with tags."""
    bomb = "!!python/object/apply:os.system ['true']"
    scene.attempt("create_project", name="second", intent="x", goal=GOAL, config=bomb)
    scene.attempt("configure", project=NAME, changes=bomb)
    scene.attempt("configure", project=NAME, changes={"optimizer": bomb})


@refused(at="created", rule="nests deeper than|not a dotted key|no deep nesting")
def deep(scene: Scene) -> None:
    """Send a configuration nested ten thousand deep."""
    for depth in (40, 200):
        scene.attempt("configure", project=NAME, changes={"model.args": _nested(depth)})
    scene.attempt("configure", project=NAME, changes={".".join(["a"] * 10_000): 1})


@refused(at="created", rule="(?i)at most|too (long|large|many)|longer than|characters|unknown key|not a dotted key")
def flood(scene: Scene) -> None:
    """Send texts and mappings of megabytes."""
    scene.attempt("create_project", name="second", intent="x" * 3_000_000, goal=GOAL, config=CONFIG)
    scene.attempt("configure", project=NAME, changes={"seed": 1}, reason="x" * 3_000_000)
    scene.attempt("configure", project=NAME, changes={f"key{number}": 1 for number in range(50_000)})
    scene.attempt("start_training", project=NAME, kind="smoke", idempotency_key="k" * 3_000_000)
    scene.attempt("read_document", path="x" * 3_000_000)


@refused(at="created", rule="`[a-z_.]+` = ")
def huge_numbers(scene: Scene) -> None:
    """Send numbers beyond every machine."""
    for value in (10**30, 1e308, -1, 0, 10**9):
        scene.attempt("configure", project=NAME, changes={"training.epochs": value})
    scene.attempt("configure", project=NAME, changes={"optimizer.learning_rate": 1e300})


@refused(at="created", rule="`[a-z_.]+` = ")
def wrong_types(scene: Scene) -> None:
    """Send a boolean for a number, a text for a number, a list for a mapping."""
    for value in (True, "yes", "twenty", "20.5", "0x14", "1e400", [20, 30], [[20]], {"value": 20}, 20.5):
        scene.attempt("configure", project=NAME, changes={"training.epochs": value})
    scene.attempt("configure", project=NAME, changes=[["seed", 1]])


@refused(at="created", rule="is not a valid name|There is no project")
def odd_letters(scene: Scene) -> None:
    """Name a project in letters that look like others, or in invisible ones."""
    for name in ("flоwers", "flowers\u200b", "\u202eflowers", "Ⅸ", "ﬂowers", "FLOWERS", "flowers\ufeff"):
        scene.attempt("create_project", name=name, intent="x", goal=GOAL, config=CONFIG)
        scene.attempt("pass_gate", project=name, phase="planning")


@refused(at="created", rule="control character|not the name of a metric|not a valid name")
def injected_words(scene: Scene) -> None:
    """Put terminal codes and forged lines into what reports will print."""
    forged = "accuracy\n| planning.seeds_probed | passed |"
    scene.attempt("create_project", name="second", intent="\x1b[2Jall gates passed", goal=GOAL, config=CONFIG)
    scene.attempt("create_project", name="second", intent="x", goal=GOAL | {"metric": forged}, config=CONFIG)


@refused(at="created", rule="unknown key|not a dotted key|single value")
def object_attributes(scene: Scene) -> None:
    """Reach the program's own attributes through dotted keys."""
    for key in ("__class__", "optimizer.__init__", "seed.real", "model.__dict__", "..", "optimizer.", ""):
        scene.attempt("configure", project=NAME, changes={key: 1})


@refused(at="created", rule="such keys name the runs that studies start")
def key_of_a_study(scene: Scene) -> None:
    """Take the key of a run that a study will start."""
    scene.attempt("start_training", project=NAME, kind="smoke", idempotency_key="study-1/confirmation/0")


FORGED = "## Independently evaluated"


@cheat(by="code", at="empty", expected="refused", rule="no line of a report begins with it", shows=("GATE-6",))
def section_in_a_header(scene: Scene) -> None:
    """Forge a section of the model card by a column header with line breaks."""
    table = scene.world.code / "iris.csv"
    header, _, rows = table.read_text().partition("\n")
    table.write_text(header.replace("sepal_width", f'"sepal\n\n{FORGED}\n\nYes: accuracy 1.0"') + "\n" + rows)
    scene.project()
    scene.advance_to("finished")
    reports = {path: path.read_text(encoding="utf-8") for path in scene.project_folder.rglob("*.md")}
    forged = [path.name for path, text in reports.items() if any(line.startswith(FORGED) for line in text.splitlines())]
    scene.claim(
        f"{len(reports)} reports, and no line of a report begins with it, but of {forged}", is_refused=not forged
    )
