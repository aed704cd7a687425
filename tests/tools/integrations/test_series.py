"""The service of a model that forecasts a series: the answers of predict.py, and what is noted and refused."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.tools.integrations.conftest import Service, serving
from tests.tools.integrations.test_generation import write_model
from tests.trainer.jobs.test_predict import sums

from trainwright.tools.integrations import deploy, read_signature
from trainwright.tools.integrations.inputs import Field
from trainwright.trainer.data.table.schema import Column, TableSchema
from trainwright.trainer.prediction.assembly import assembled

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]

WINDOW, HORIZON = 3, 2
SCHEMA = TableSchema(
    [Column("wind", "number", "as written"), Column("load", "number", "as written")],
    [Column("load", "number", "the target")],
).shipped({})
SERIES = {"use": "csv", "args": {"path": "a.csv", "target": "load", "series": {"window": WINDOW, "horizon": HORIZON}}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model by hand: the last load, then the sum of all winds."""
    folder = tmp_path_factory.mktemp("series") / "final_model"
    every = {"length": 3600.0, "unit": "second", "words": "hour"}
    series = {"window": WINDOW, "horizon": HORIZON, "time": "date", "group": "site", "every": every, "dates": None}
    SCHEMA["columns"][0]["range"], SCHEMA["columns"][0]["median"] = [0.0, 10.0], 4.0
    schema = {**SCHEMA, "kind": "series", "series": series, "answer": {"kind": "forecast", "target": "load"}}
    schema |= {"program": {"file": "model.onnx", "inputs": ["input"]}, "needs": "numpy onnxruntime"}
    resolved = {"class_names": None, "loss": "mse", "input_shapes": [[WINDOW, 2]]}
    fitted = {"kind": "standardize", "mean": [5.0, 50.0], "scale": [1.0, 5.0]}
    write_model(
        folder, {**resolved, "preprocessing": fitted, "onnx_includes_preprocessing": True}, SERIES,
        schema_json=json.dumps(schema), predict_py=assembled("series", "forecast", ""),
    )  # fmt: skip
    weights = np.array([[0, 1], [0, 0], [0, 1], [0, 0], [0, 1], [1, 0]])
    onnx.save(sums(weights, shape=["rows", WINDOW, 2]), folder / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def service(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Its service."""
    deploy(model, into := tmp_path_factory.mktemp("parts"))
    with serving(into / "service", drift_log=str(into / "drift.jsonl"), drift_seconds="3600") as running:
        yield running


def hours(*given: int, **more: Any) -> list[dict[str, Any]]:
    """Return rows of some hours, each with its number as the wind."""
    return [{"date": f"2026-01-01 {hour:02}:00", "wind": hour, "load": 50 + hour, **more} for hour in given]


def test_a_past_is_answered_as_predict_py_answers_its_file(service: Service, model: Path) -> None:
    predict = runpy.run_path(str(model / "predict.py"))["predict"]
    pasts = [hours(0, 1, 2, 3), hours(5, 3, 4, site="north")]
    found = service.predict(rows=[{"past": past} for past in pasts])
    assert found.status_code == 200, found.text
    assert [one["forecast"] for one in found.json()["predictions"]] == [
        one["answer"]["forecast"] for past in pasts for one in predict(past)
    ]
    assert found.json()["predictions"][0]["forecast"] == [
        {"step": 1, "date": "2026-01-01 04:00:00", "load": 53.0},
        {"step": 2, "date": "2026-01-01 05:00:00", "load": 6.0},
    ]


def test_gaps_and_values_that_training_did_not_meet_are_noted(service: Service) -> None:
    past = [*hours(1, 2), {"date": "2026-01-01 06:00", "wind": 99, "load": 50}]
    answer = service.predict(row={"past": past}).json()["prediction"]
    assert answer["notes"] == [
        "date: 3 rows are missing among the last 3, first after 2026-01-01 02:00; training had a row every hour: fill "
        "them in",
        "wind: 99 is beyond the training data (0 to 10)",
    ]
    assert 'inputs_odd_total{field="wind",what="far"} 1.0' in service.client.get("/metrics").text


@pytest.mark.parametrize(
    ("past", "words"),
    [
        (hours(1, 2), "has 2 rows; the model sees the last 3"),
        ([*hours(1, 2), {"date": "soon", "wind": 1, "load": 1}], "'soon' is no date"),
        ([*hours(1, 2), *hours(3, wind="much")], "'much' is no finite number"),
        ([*hours(1, 2, 3, site="a"), *hours(4, site="b")], "several 'site'"),
        ([1, 2, 3], "dictionary"),
    ],
)
def test_a_past_that_is_none_names_its_field(service: Service, past: list[Any], words: str) -> None:
    answer = service.predict(rows=[{"past": hours(1, 2, 3)}, {"past": past}])
    assert answer.status_code == 422, answer.text
    problem = answer.json()["errors"][0]
    assert problem["field"].startswith("rows[1].past")
    assert words in problem["problem"]


def test_times_at_the_end_of_the_calendar_are_no_failure_of_the_service(service: Service) -> None:
    past = [{"date": f"9999-12-31 {hour}:00", "wind": 1, "load": 1} for hour in (21, 22, 23)]
    assert service.predict(row={"past": past}).json()["prediction"]["forecast"][0] == {"step": 1, "load": 1.0}


def test_the_client_has_an_example_that_is_answered_without_a_note(
    service: Service, model: Path, tmp_path: Path
) -> None:
    deploy(model, tmp_path, ["client", "form"])
    client = runpy.run_path(str(tmp_path / "client" / "client.py"))
    assert client["EXAMPLE"]["past"][1] == {"date": "2026-01-01 01:00", "wind": 4.0, "load": 0}
    (found,) = client["predict"]([client["EXAMPLE"]], url=service.url)
    assert set(found) == {"forecast"}
    assert "past: Past[];" in (tmp_path / "client" / "client.ts").read_text()
    assert 'get("past")' in (tmp_path / "form" / "components" / "rows.tsx").read_text()
    declared = (tmp_path / "form" / "lib" / "signature.ts").read_text().partition("type Field = {")[2].partition("}")[0]
    assert {line.split(":")[0].strip() for line in declared.strip().splitlines()} == set(Field.model_fields)


def test_its_signature_names_the_window_the_times_and_the_targets(model: Path) -> None:
    found = read_signature(model)
    assert (found.task, found.names, found.target, found.numbers) == ("forecast", ["load"], "load", HORIZON)
    assert (found.inputs.kind, found.inputs.window, found.inputs.time, found.inputs.group) == (
        "series", WINDOW, "date", "site",
    )  # fmt: skip
