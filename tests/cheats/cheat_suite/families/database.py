"""Editing, removing and adding rows of the workspace's database, past the server."""

from __future__ import annotations

from functools import partial

from tests.worlds.flowers import NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene

edited = partial(cheat, by="files", expected="detected", shows=("GATE-3",))


@edited(at="trained", rule="goal was changed in the database")
def row_goal(scene: Scene) -> None:
    """Lower the project's goal."""
    scene.execute("UPDATE projects SET goal = json_set(goal, '$.target', 0.0)")


@edited(at="planned", rule="code_root was changed in the database")
def row_code_root(scene: Scene) -> None:
    """Move the project's code root."""
    scene.execute("UPDATE projects SET code_root = '/'")


@edited(at="based", rule="intent was changed in the database")
def row_intent(scene: Scene) -> None:
    """Rewrite what the project was for."""
    scene.execute("UPDATE projects SET intent = 'something easier'")


@edited(at="planned", rule="configuration version 1: values was changed in the database")
def row_configuration(scene: Scene) -> None:
    """Edit a configuration that has passed planning."""
    scene.execute('UPDATE config_versions SET "values" = json_set("values", \'$.training.epochs\', 500)')


@edited(at="based", rule="configuration version 2 was removed|newest configuration was removed")
def row_configuration_removed(scene: Scene) -> None:
    """Remove the configuration that made the gates stale."""
    scene.must("configure", project=NAME, changes={"training.epochs": 9})
    scene.execute("DELETE FROM config_versions WHERE number = 2")


@edited(at="planned", rule="configuration version 2 has no ledger entry")
def row_configuration_added(scene: Scene) -> None:
    """Add a configuration past the server."""
    columns = 'project, 2, "values", digest, reason, created_at'
    scene.execute(
        f'INSERT INTO config_versions (project, number, "values", digest, reason, created_at) '
        f"SELECT {columns} FROM config_versions"
    )


@edited(at="planned", rule="kind was changed in the database")
def row_kind(scene: Scene) -> None:
    """Call the smoke run a baseline."""
    scene.execute("UPDATE runs SET kind = 'baseline'")


@edited(at="based", rule="seed was changed in the database")
def row_seed(scene: Scene) -> None:
    """Hide the seed of a run."""
    scene.execute("UPDATE runs SET seed = 43 WHERE kind = 'baseline'")


@edited(at="based", rule="state was changed in the database")
def row_state(scene: Scene) -> None:
    """Declare a completed run failed, to be rid of it."""
    scene.execute("UPDATE runs SET state = 'failed' WHERE kind = 'baseline'")


@edited(at="based", rule="summary was changed in the database")
def row_summary(scene: Scene) -> None:
    """Write another best value into the run's row."""
    scene.execute("UPDATE runs SET summary = json_set(summary, '$.best.metrics.accuracy', 1.0) WHERE kind = 'baseline'")


@edited(at="trained", rule="summary.json was changed after it was sealed")
def row_unsealed(scene: Scene) -> None:
    """Unseal a run in the database, edit it, and have it sealed again."""
    path = scene.run("baseline") / "artifacts" / "summary.json"
    path.write_text(path.read_text().replace('"accuracy": 0', '"accuracy": 1'))
    scene.execute("UPDATE runs SET sealed = 0")
    scene.must("run_status", run_id=scene.newest("baseline"))


@edited(at="based", rule="run baseline-.* was removed from the database")
def row_run_removed(scene: Scene) -> None:
    """Remove a run from the database."""
    scene.execute("DELETE FROM runs WHERE kind = 'baseline'")


@edited(at="planned", rule="baseline-own has no ledger entry")
def row_run_added(scene: Scene) -> None:
    """Add a run of one's own, folder and row."""
    own = scene.run("smoke").with_name("baseline-own")
    own.mkdir()
    for path in scene.run("smoke").rglob("*"):
        target = own / path.relative_to(scene.run("smoke"))
        target.mkdir(exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    names = [str(row[1]) for row in scene.query("PRAGMA table_info(runs)")]
    given = {"id": "'baseline-own'", "kind": "'baseline'"}
    columns = ", ".join(given.get(name, f'"{name}"') for name in names)
    scene.execute(f"INSERT INTO runs SELECT {columns} FROM runs WHERE kind = 'smoke'")


@edited(at="finished", rule="registered model 1: metrics was changed in the database")
def row_model(scene: Scene) -> None:
    """Improve the metrics of a registered model."""
    scene.execute("UPDATE registered_models SET metrics = '{\"accuracy\": 1.0}'")


@edited(at="finished", rule="registered model 1 was removed")
def row_model_removed(scene: Scene) -> None:
    """Remove a registered model."""
    scene.execute("DELETE FROM registered_models")


@edited(at="based", rule="created_at was changed in the database")
def row_times(scene: Scene) -> None:
    """Backdate runs and configurations."""
    for table in ("runs", "config_versions"):
        scene.execute(f"UPDATE {table} SET created_at = '2026-01-01 00:00:00.000000'")


@edited(at="diagnosed", rule="study study-own has no ledger entry")
def row_study_added(scene: Scene) -> None:
    """Add a study of one's own."""
    row = {
        "id": "study-own",
        "project": NAME,
        "search": "{}",
        "objective": "{}",
        "base_values": "{}",
        "base_config_digest": scene.query("SELECT digest FROM config_versions")[0][0],
        "state": "completed",
        "confirmation": '{"validated": true}',
        "created_at": "2026-11-21 00:00:00",
    }
    scene.insert("studies", row)


@edited(at="based", rule="was removed from the database")
def database_emptied(scene: Scene) -> None:
    """Empty every table but the ledger."""
    for table in ("runs", "config_versions", "projects"):
        scene.execute(f"DELETE FROM {table}")
