"""What is kept of an inspection depends on every file that it read, and the machine is looked at anew."""

from __future__ import annotations

import json
import os
import re
from contextlib import nullcontext

import pytest

from trainwright.tools.training_architect import require_fitting_metric
from trainwright.tools.training_architect.inspecting import (
    WORKER,
    answer_of,
    begun,
    inspected,
    order_of,
    stamps_of,
)
from trainwright.tools.training_architect.request import read_request
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.jobs.answering import REPORT

ROWS = "size,team\n" + "".join(f"{number},t{number % 2}\n" for number in range(40))


@pytest.fixture
def workspace(tmp_path):
    opened = Workspace.open(tmp_path / "workspace")
    yield opened
    opened.close()


@pytest.mark.requirement("ARCH-1")
def test_a_file_that_changes_in_a_folder_or_behind_a_pattern_is_inspected_again(tmp_path):
    folder = tmp_path / "photos" / "cats"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("x")
    before = [stamps_of(tmp_path, name) for name in ("photos", "photos/*/*.csv", ["photos/cats/a.csv"])]
    state = folder.stat()
    (folder / "a.csv").write_text("other")
    os.utime(folder, ns=(state.st_atime_ns, state.st_mtime_ns))
    after = [stamps_of(tmp_path, name) for name in ("photos", "photos/*/*.csv", ["photos/cats/a.csv"])]
    assert all(old != new for old, new in zip(before, after, strict=True))
    assert stamps_of(tmp_path, None) == []


@pytest.mark.slow
@pytest.mark.requirement("ARCH-1")
@pytest.mark.parametrize(
    ("target", "wanted", "said"),
    [
        (
            "kind",
            ("auc", "cross_entropy"),
            "auc, which is for 2 classes, and what is predicted is one of 3 classes",
        ),
        (
            "price",
            ("accuracy", "cross_entropy"),
            "accuracy, which is for classes, and what is predicted is a number",
        ),
        (
            "kind",
            ("r2", "mse"),
            r"r2, which is for numbers, and what is .* one of 3 classes \(k0, k1, k2\).*, with loss cross_entropy",
        ),
        ("odd", ("r2", "mse"), None),
        ("marked", ("r2", "mse", "classification"), None),
        ("team", ("roc_auc", "cross_entropy"), None),
        ("truth", ("auc", "cross_entropy"), None),
        ("marked", ("accuracy", "cross_entropy"), None),
        (
            "amount",
            ("accuracy", "cross_entropy"),
            "accuracy, which is for classes, and what is predicted is a number",
        ),
        ("price", ("accuracy", "cross_entropy", "classification"), None),
        ("<price|team|kind>", ("accuracy", "cross_entropy"), "is no column of the file"),
    ],
)
def test_a_goal_that_says_nothing_of_the_target_and_no_target_are_refused_before_the_project(
    tmp_path, workspace, target, wanted, said
):  # fmt: skip
    metric, loss, *task = wanted
    rows = "".join(
        f"{number * 1.37},t{number % 2},k{number % 3},{number % 2}.0,{['1', '2', '3+', '4'][number % 4]},${number}.50,"
        f"{number % 4 if number else 'unknown'}\n"
        for number in range(40)
    )
    (tmp_path / "rows.csv").write_text(f"price,team,kind,truth,marked,amount,odd\n{rows}")
    data = {"use": "csv", "args": {"path": "rows.csv", "target": target, **({"task": task[0]} if task else {})}}
    config = {"model": {"use": "mlp"}, "data": data, "loss": loss, "code_root": str(tmp_path)}
    goal = {"metric": metric, "direction": "maximize", "target": 0.9}
    with pytest.raises(ConfigurationError) if said else nullcontext() as refused:
        require_fitting_metric(workspace, config, goal)
    if refused is not None:
        assert re.search(said, f"{refused.value.message} {refused.value.remedy}")


@pytest.mark.long
@pytest.mark.requirement("ARCH-1")
def test_the_machine_is_looked_at_anew_after_a_while_and_the_files_are_not(tmp_path, workspace):
    (tmp_path / "rows.csv").write_text(ROWS)
    request = read_request(intent="x", data="rows.csv", model="mlp")
    first = inspected(workspace, request, tmp_path, 60)
    report = begun(workspace, WORKER, order_of(request, tmp_path), tmp_path) / REPORT
    old = {**first, "data": {**first["data"], "rows": 12345}, "machine": {**first["machine"], "cores": 999}, "at": 0.0}
    report.write_text(json.dumps(old))
    later = inspected(workspace, request, tmp_path, 60)
    assert later["data"]["rows"] == 12345
    assert {**later["machine"], "processor": 0} == {**first["machine"], "processor": 0}, "but for what is timed anew"


@pytest.mark.slow
@pytest.mark.requirement("ARCH-1")
def test_a_list_of_objects_is_looked_at_as_a_table_with_its_empty_cells(tmp_path, workspace):
    cars = [{"name": f"car {n}", "miles": None if n == 3 else 10.5 + n, "origin": "ab"[n % 2]} for n in range(40)]
    (tmp_path / "cars.json").write_text(json.dumps(cars, indent=1))
    found = inspected(workspace, read_request(intent="x", data="cars.json", model="mlp"), tmp_path, 60)
    assert found["data"]["rows"] == 40
    empty = {one["name"]: one.get("empty") for one in found["data"]["columns"]}
    assert empty == {"name": None, "miles": 1, "origin": None}


@pytest.mark.requirement("ARCH-3")
def test_the_same_order_is_begun_once_and_a_process_that_ends_without_an_answer_is_told(tmp_path, workspace):
    order = {"config": {}, "stamps": []}
    folders = [begun(workspace, "trainwright.no_such_module", order, tmp_path) for _ in range(2)]
    assert folders[0] == folders[1]
    assert len(list(folders[0].glob("worker.log"))) == 1
    with pytest.raises(DataError, match="ended without an answer") as refused:
        answer_of(folders[0], 30, lambda: False)
    assert "no_such_module" in refused.value.remedy
