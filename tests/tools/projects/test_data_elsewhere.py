"""A project whose rows are in a database: the same rows from planning on, and its password nowhere on the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.data_servers import PASSWORD, Postgres, postgres
from tests.worlds.flowers import CONFIG, GOAL, finish, table, train, write_code

from trainwright.tools import projects
from trainwright.tools.launchers.environment import worker_environment
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.remote.connections import Connection
from trainwright.trainer.evidence.data import Data
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow
NAME = "irises"
CHANGED = "UPDATE irises SET petal_width = petal_width + 1"
RESTORED = "UPDATE irises SET petal_width = round((petal_width - 1)::numeric, 1)"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    with postgres() as running:
        header, *rows = table()
        columns = header.replace(",", " float8, ")
        listed = ", ".join(f"({row}, {number})" for number, row in enumerate(rows))
        running.execute(
            f"CREATE TABLE irises ({columns} int, id int PRIMARY KEY)", f"INSERT INTO irises VALUES {listed}"
        )
        monkeypatch.setenv("IRIS_DB_URL", running.url)
        yield running


def config(**args: Any) -> dict[str, Any]:
    query = "SELECT sepal_length, sepal_width, petal_length, petal_width, species FROM irises ORDER BY id"
    asked = {"url_env": "IRIS_DB_URL", "query": query, "target": "species", **args}
    return {**CONFIG, "data": {**CONFIG["data"], "use": "sql", "args": asked}}


@pytest.mark.long
@pytest.mark.requirement("TRAIN-1", "REPRO-4", "PIPE-2")
def test_planning_fixes_the_rows_of_a_query_and_no_password_is_written(server: Postgres, tmp_path: Path) -> None:
    write_code(tmp_path / "code")
    workspace = Workspace.open(tmp_path / "workspace")
    leaking = config(url_env=None, url=server.url)
    with pytest.raises(ConfigurationError, match="configurations are recorded") as refused:
        projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=leaking)
    assert PASSWORD not in str(refused.value.as_dict())
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=config())
    server.stop()
    lost = finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    assert lost.state == "failed"
    assert lost.failure.category == "data", lost.failure
    assert "the database of IRIS_DB_URL is not reached" in lost.failure.message.replace("The", "the")
    server.start()
    train(workspace, RunKind.SMOKE, NAME)
    projects.pass_gate(workspace, NAME, "planning")
    server.execute(CHANGED)
    shutil.rmtree(tmp_path / "workspace" / "cache")
    other = finish(workspace, start_run(workspace, NAME, RunKind.BASELINE).run_id)
    assert other.state == "failed"
    assert "data changed since the planning gate" in other.failure.message
    shutil.rmtree(tmp_path / "workspace" / "cache")
    server.execute(RESTORED)
    baseline = train(workspace, RunKind.BASELINE, NAME)
    files = workspace.run_directory(NAME, baseline.run_id).part(Data).files
    assert [name.rpartition("/")[0] for name in files] == ["sql://IRIS_DB_URL"]
    workspace.close()
    assert verify_workspace(tmp_path / "workspace").problems == []
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 50
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []


@pytest.mark.requirement("TRAIN-1")
def test_a_worker_gets_the_variables_that_its_data_name_and_takes_them_away(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IRIS_DB_URL", "OTHER_DB_URL", "S3_SECRET", "S3_KEY"):
        monkeypatch.setenv(name, f"postgresql://me:{PASSWORD}@{name}/db")
    asked = parse_config(config())
    known = {"store": Connection(secret_env="S3_SECRET")}  # noqa: S106 - the name of a variable
    given = worker_environment(asked, known)
    assert {name for name, value in given.items() if PASSWORD in value} == {"IRIS_DB_URL", "S3_SECRET"}
    assert asked.data is not None
    access = connections.taken(asked.data.args, connections.Access("run", known))
    assert "IRIS_DB_URL" not in os.environ
    assert "S3_SECRET" not in os.environ
    assert PASSWORD not in repr(access)
    connections.use(access)
    assert PASSWORD in connections.variable("IRIS_DB_URL", holds="a URL")
    connections.use(connections.Access())


@pytest.mark.requirement("TRAIN-1", "GATE-4")
def test_the_owner_names_connections_and_bounds_where_data_come_from(tmp_path: Path) -> None:
    write_code(tmp_path / "code")
    workspace = Workspace.open(tmp_path / "workspace")
    named = config(url_env=None, profile="db")
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=named)
    with pytest.raises(ConfigurationError, match="no connection 'db'.*|settings"):
        start_run(workspace, NAME, RunKind.SMOKE)
    settings = tmp_path / "workspace" / "settings.yaml"
    values = yaml.safe_load(settings.read_text())
    allowed = {"connections": {"db": {"url_env": "IRIS_DB_URL"}}, "data_locations": ["s3://ours/*"]}
    settings.write_text(yaml.safe_dump(values | allowed))
    workspace.close()
    workspace = Workspace.open(tmp_path / "workspace")
    with pytest.raises(ConfigurationError, match="let no data come from sql://db") as refused:
        start_run(workspace, NAME, RunKind.SMOKE)
    assert "data_locations" in refused.value.remedy
    settings.write_text(yaml.safe_dump(values))
    changes = {"data.args.url_env": "OPENAI_API_KEY", "data.args.profile": None}
    projects.configure(workspace, NAME, changes=changes)
    workspace.close()
    workspace = Workspace.open(tmp_path / "workspace")
    with pytest.raises(ConfigurationError, match="give the variable OPENAI_API_KEY to no data"):
        start_run(workspace, NAME, RunKind.SMOKE)
    workspace.close()


@pytest.mark.requirement("TRAIN-1", "CONF-1")
def test_a_project_names_remote_files_and_folders_of_data_sets(tmp_path: Path) -> None:
    write_code(tmp_path / "code")
    (tmp_path / "code" / "irises").mkdir()
    workspace = Workspace.open(tmp_path / "workspace")
    places = {"csv": "s3://ours/irises.csv", "arrow": "irises", "chat": "irises"}
    for use, path in places.items():
        args = {"path": path} | ({} if use == "chat" else {"target": "species"})
        named = {**CONFIG, "data": {"use": use, "args": args}}
        projects.create_project(workspace, f"of-{use}", intent="tell irises apart", goal=GOAL, config=named)
    refused = {**CONFIG, "data": {"use": "csv", "args": {"path": "file:///etc/passwd", "target": "x"}}}
    with pytest.raises(ConfigurationError, match="remote files are not read by 'file'"):
        projects.create_project(workspace, "refused", intent="tell irises apart", goal=GOAL, config=refused)
    workspace.close()
