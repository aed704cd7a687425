"""The generated service, in a process of its own without torch and Trainwright: its answers are the model's figures."""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.tools.integrations.conftest import Service, serving
from tests.variants import variants

from trainwright.tools.integrations import deploy
from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.clean_room.rows import read_array
from trainwright.trainer.config import parse_config

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]

KEY = secrets.token_hex(16)
ROW = {"age (years)": 41, "plan": "family", "joined": "2021-03-04", "active": True, "remark": "called twice"}


def held_back(model: Any) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return rows of the validation split as a client sends them, what the program gives for them, and the targets."""
    folder, values = model
    root = folder.parents[2] / "code"
    samples = build_data(parse_config(values), root).samples["validation"]
    places = range(len(samples))
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    if values["data"]["use"] == "csv" and "text" in values["data"]["args"]:
        batch = samples.gather(places)
        texts = _texts(root / "tickets.csv", samples, batch)
        outputs = session.run(None, {one.name: batch[one.name].numpy() for one in session.get_inputs()})[0]
        return [{"text": text} for text in texts], outputs, batch["labels"].numpy()
    inputs, targets = (part.numpy() for part in samples.raw.gather(places)[:2])
    outputs = session.run(None, {"input": inputs})[0]
    if values["data"]["use"] == "images":
        files = [samples.pictures.files[row] for row in samples.rows]
        rows = [{"picture": base64.b64encode(Path(file).read_bytes()).decode()} for file in files]
    elif values["data"]["use"] == "csv":
        rows = _rows_of(next(root.glob("*.csv")), samples.rows.tolist(), values["data"]["args"]["target"])
    else:
        rows = [{"values": one.tolist()} for one in inputs]
    return rows, outputs, targets


def _rows_of(path: Path, places: list[int], target: str) -> list[dict[str, Any]]:
    import csv

    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    return [{name: cell for name, cell in lines[place].items() if name != target} for place in places]


def _texts(path: Path, samples: Any, batch: Any) -> list[str]:
    """Return the texts whose tokens the samples hold."""
    from trainwright.trainer.data.text.tokenizers import TrainedTokenizer

    lines = [line.rsplit(",", 1)[0] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    merges = json.loads((path.parents[1] / "export/artifacts/final_model/resolved.json").read_text())["text"][
        "tokenizer"
    ]
    made = TrainedTokenizer([tuple(merge.split(" ")) for merge in merges["merges"]])
    by_tokens = {tuple(made.encode_whole(line, 24).tolist()): line for line in lines}
    return [
        by_tokens[tuple(ids[mask.bool()].tolist())]
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def predicted(service: Service, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = service.predict(rows=rows)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["predictions"]
    return found


def softmax(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(np.asarray(scores, dtype=np.float64) - scores.max(axis=1, keepdims=True))
    shares: np.ndarray[Any, Any] = powers / powers.sum(axis=1, keepdims=True)
    return shares


@pytest.mark.parametrize("kind", variants(["table", "picture", "text", "array"], quick=["table"]))
def test_it_answers_as_the_model_was_evaluated(kind: str, model_of: Any, service_of: Callable[[str], Service]) -> None:
    rows, outputs, targets = held_back(model_of(kind))
    found = [one for at in range(0, len(rows), 200) for one in predicted(service_of(kind), rows[at : at + 200])]
    names = service_of(kind).client.get("/model").json()["classes"]
    shares = np.array([[one["scores"][name] for name in names] for one in found])
    np.testing.assert_allclose(shares, softmax(outputs), atol=1e-5)
    assert [one["label"] for one in found] == [names[place] for place in outputs.argmax(1)]
    reported = json.loads((model_of(kind)[0] / "metrics.json").read_text())["validation"]["metrics"]["accuracy"]
    assert np.mean([names.index(one["label"]) for one in found] == targets) == pytest.approx(reported)


@pytest.mark.long
def test_a_number_is_answered_in_the_targets_own_units(model_of: Any, service_of: Callable[[str], Service]) -> None:
    rows, outputs, targets = held_back(model_of("number"))
    found = [one["value"] for one in predicted(service_of("number"), rows)]
    np.testing.assert_allclose(found, outputs.reshape(-1), rtol=1e-5)
    assert 50 < np.mean(found) < 150
    assert len(found) == len(targets)


@pytest.mark.long
def test_numbers_that_are_predicted_together_are_answered_in_their_order(
    model_of: Any, service_of: Callable[[str], Service]
) -> None:
    rows, outputs, targets = held_back(model_of("forecast"))
    found = [one["values"] for one in predicted(service_of("forecast"), rows)]
    np.testing.assert_allclose(found, outputs, rtol=1e-5)
    assert np.shape(found) == targets.shape == (len(rows), 3)
    assert np.mean(found, axis=0)[2] > 5, "in the targets' own units"
    shown = service_of("forecast").client.get("/model").json()
    assert (shown["task"], shown["numbers"], shown["target"]) == ("regression", 3, "3 numbers")


def test_its_answers_on_the_fixed_rows_are_the_certified_figures(at: Any, tmp_path: Path) -> None:
    """By a project that passed all gates: what the clean room computed is what a client gets."""
    workspace = at("finished")
    folder = workspace.project_folder("flowers")
    deploy(folder, tmp_path / "parts", ["service"])
    record = json.loads((folder / "final_model" / "evaluation.json").read_text())
    split = record["order"]["rows"]["record"]["splits"]["test"]
    place = folder / "final_model" / record["rows"]
    inputs, targets = read_array(place, split["inputs"]["input"]), read_array(place, split["target"])
    names = [column["name"] for column in json.loads((folder / "final_model" / "schema.json").read_text())["columns"]]
    rows = [dict(zip(names, map(float, row), strict=True)) for row in inputs]
    with serving(tmp_path / "parts" / "service") as service:
        found = predicted(service, rows)
        shown = service.client.get("/model").json()
    certified = record["certified"]["test"]
    assert np.mean([shown["classes"].index(one["label"]) for one in found] == targets) == certified["accuracy"]
    losses = [-math.log(one["scores"][shown["classes"][target]]) for one, target in zip(found, targets, strict=True)]
    assert np.mean(losses) == pytest.approx(certified["loss"], rel=1e-5)
    assert (shown["release"]["number"], shown["release"]["name"]) == (1, "1")
    assert shown["release"]["sealed_at"].startswith("20")
    assert shown["certified"] == ["accuracy", "loss"]
    assert shown["metrics"] == {"accuracy": certified["accuracy"], "loss": pytest.approx(certified["loss"])}


def test_one_and_many_get_the_same_answer(service_of: Callable[[str], Service]) -> None:
    service = service_of("table")
    one = service.predict(row=ROW).json()
    many = service.predict(rows=[ROW, {**ROW, "age (years)": "41"}]).json()
    assert many["predictions"] == [one["prediction"]] * 2
    digest = service.client.get("/ready").json()["program_sha256"]
    assert one["release"] == many["release"] == digest[:12], "a copy of final_model/ says no number"
    assert set(one["prediction"]) == {"label", "probability", "scores"}


WRONG: dict[str, tuple[Any, str | None, str]] = {
    "another kind": ({"row": {**ROW, "age (years)": "old"}}, "row.age (years)", "no finite number"),
    "a list": ({"row": {**ROW, "plan": ["family"]}}, "row.plan", "one value"),
    "a date of another form": ({"rows": [ROW, {**ROW, "joined": "4 March"}]}, "rows[1].joined", "no date"),
    "a column that is not there": ({"row": {k: v for k, v in ROW.items() if k != "plan"}}, "row.plan", "required"),
    "a column too many": ({"row": {**ROW, "planet": "Mars"}}, "row.planet", "no such field"),
    "both": ({"row": ROW, "rows": [ROW]}, None, "either"),
    "neither": ({}, None, "either"),
    "no rows": ({"rows": []}, "rows", "at least 1"),
    "too many rows": ({"rows": [ROW] * 257}, "rows", "at most 256"),
    "no object": ([1], None, "valid"),
}


@pytest.mark.parametrize("name", list(WRONG))
def test_a_request_that_is_wrong_names_its_field(name: str, service_of: Callable[[str], Service]) -> None:
    body, field, words = WRONG[name]
    answer = service_of("table").client.post("/predict", json=body)
    assert answer.status_code == 422, answer.text
    [problem] = answer.json()["errors"]
    assert problem["field"] == field
    assert words in problem["problem"]


@pytest.mark.long
def test_what_is_no_row_of_another_kind_names_its_field(service_of: Callable[[str], Service]) -> None:
    torn = base64.b64encode(b"no picture").decode()
    given = {"picture": ("*", "base64"), "text": (" ", "empty"), "array": ([[1, 2]], "shape")}
    for kind, (value, words) in given.items():
        name = {"array": "values"}.get(kind, kind)
        [problem] = service_of(kind).predict(row={name: value}).json()["errors"]
        assert (problem["field"], words in problem["problem"]) == (f"row.{name}", True), problem
    [problem] = service_of("picture").predict(row={"picture": torn}).json()["errors"]
    assert problem == {"field": "row.picture", "problem": "it is no picture of a known format"}
    answer = service_of("table").client.post("/predict", content=b"{", headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, None)


def test_it_tells_about_itself(model_of: Any, service_of: Callable[[str], Service]) -> None:
    service, folder = service_of("table"), model_of("table")[0]
    assert service.client.get("/health").json() == {"status": "alive"}
    ready = service.client.get("/ready").json()
    shown = service.client.get("/model").json()
    assert shown["card"] == (folder / "README.md").read_text()
    assert shown["files"]["model.onnx"] == shown["release"]["program_sha256"] == ready["program_sha256"]
    assert (shown["project"], shown["task"], shown["target"]) == ("table", "classification", "churned")
    assert [field["name"] for field in shown["inputs"]["fields"]] == list(ROW)
    described = service.client.get("/openapi.json").json()["components"]["schemas"]["Row"]
    assert set(described["properties"]["plan"]["examples"]) == {"basic", "family", "business"}
    assert service.client.get("/nowhere").json()["errors"][0]["problem"] == "Not Found"


def test_metrics_count_requests_and_what_training_did_not_meet(service_of: Callable[[str], Service]) -> None:
    service = service_of("table")
    odd = {**ROW, "plan": "galaxy", "age (years)": None}
    answer = service.predict(row=odd).json()["prediction"]
    assert answer["notes"] == ["plan: not in the training data"]
    service.predict(row={**ROW, "age (years)": 900})
    service.predict()
    text = service.client.get("/metrics").text
    for line in (
        'inputs_odd_total{field="plan",what="unseen"} 1.0', 'inputs_odd_total{field="age (years)",what="missing"} ',
        'inputs_odd_total{field="age (years)",what="far"} 1.0', 'http_requests_total{path="/predict",status="422"} ',
        'http_request_seconds_count{path="/predict"} ',
    ):  # fmt: skip
        assert line in text


@pytest.fixture
def limited(model_of: Any, tmp_path: Path) -> Any:
    """A service with a key, a low rate, a small body and a drift log."""
    deploy(model_of("table")[0], tmp_path / "parts", ["service"])
    settings = {
        "key": KEY, "rate": "6/minute", "most_bytes": "4000", "drift_log": "drift.jsonl",
        "drift_seconds": "600",
    }  # fmt: skip
    with serving(tmp_path / "parts" / "service", **settings) as service:
        yield service


def test_limits_refuse_without_a_prediction(limited: Service) -> None:
    assert limited.predict(row=ROW).status_code == 401
    for path in ("/model", "/metrics", "/openapi.json", "/docs", "/nowhere"):
        assert limited.client.get(path).status_code == 401, path
    for path in ("/health", "/ready"):
        assert limited.client.get(path).status_code == 200, path
    limited.client.headers["authorization"] = f"Bearer {KEY}"
    large = json.dumps({"rows": [ROW] * 60}).encode()
    said = limited.client.post("/predict", content=large, headers={"content-type": "application/json"})
    unsaid = limited.client.post("/predict", content=iter([large]), headers={"content-type": "application/json"})
    for answer in (said, unsaid):
        assert (answer.status_code, answer.json()["errors"][0]["problem"]) == (
            413,
            "the body has more than 4,000 bytes",
        )
    assert "Row" in limited.client.get("/openapi.json").json()["components"]["schemas"]
    assert 'http_requests_total{path="/metrics",status="401"} 1.0' in limited.client.get("/metrics").text
    answers = [limited.predict(row=ROW) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 4 + [429] * 2, "two of six were too large"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert limited.client.get("/health").status_code == 200, "the limit is on predictions"


@pytest.mark.long
def test_a_stop_answers_what_is_under_way_and_writes_the_drift_log(limited: Service) -> None:
    secret = "called about the hidden garden"
    limited.client.headers["authorization"] = f"Bearer {KEY}"
    assert limited.predict(rows=[{**ROW, "remark": secret}, {**ROW, "plan": "galaxy"}]).status_code == 200
    body = json.dumps({"row": ROW}).encode()
    head = (
        "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer "
        f"{KEY}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    host, port = limited.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(head.encode() + body[:10])
        ends = time.monotonic() + 30
        while 'path="/predict"' not in limited.client.get("/metrics").text and time.monotonic() < ends:
            time.sleep(0.01)
        stopping = threading.Thread(target=limited.stop)
        stopping.start()
        while time.monotonic() < ends:  # until it takes no new connection
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
            except OSError:
                break
        slow.sendall(body[10:])
        answer = b"".join(iter(lambda: slow.recv(65536), b""))
    stopping.join()
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b'"prediction"' in answer
    folder = limited.log.parent
    text = (folder / "drift.jsonl").read_text()
    [line] = map(json.loads, text.splitlines())
    assert line["rows"] == 3
    assert line["odd"]["plan"] == {"unseen": 1}
    assert sum(line["predicted"].values()) == 3
    assert "age (years)" in line["mean_shift"]
    assert not any(word in text for word in (secret, "galaxy", "family", "2021"))
    assert limited.process.returncode in {0, -15}
    assert "Traceback" not in limited.log.read_text()


def test_a_file_that_is_not_the_released_one_starts_no_service(model_of: Any, tmp_path: Path) -> None:
    deploy(model_of("table")[0], tmp_path / "parts", ["service"])
    for name in ("model.onnx", "schema.json", "predict.py"):
        folder = tmp_path / name / "service"
        shutil.copytree(tmp_path / "parts" / "service", folder)
        with (folder / "model" / name).open("ab") as file:
            file.write(b" ")
        started = [sys.executable, "app.py"]
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
        done = subprocess.run(started, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1
        assert f"model/{name} is not the released file" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("kind", "own"), [("table", []), ("picture", ["pillow"]), ("text", ["tokenizers"])])
@pytest.mark.long
def test_the_lock_file_has_what_the_service_imports_and_no_more(
    kind: str, own: list[str], model_of: Any, tmp_path: Path
) -> None:
    deploy(model_of(kind)[0], tmp_path, ["service"])
    require_lock(tmp_path / "service", own)


def require_lock(service: Path, own: list[str]) -> None:
    """All packages that the named ones need, in the versions that this suite runs with; neither torch nor ours."""
    import importlib.metadata

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = [line for line in (service / "requirements.txt").read_text().splitlines() if line[0] != "#"]
    locked = dict(line.split("==") for line in lines)
    asked = ["fastapi", "uvicorn", "onnxruntime", "numpy", "limits", "prometheus-client", *own]
    needed: dict[str, str] = {}
    while asked:
        requirement = Requirement(asked.pop())
        name = canonicalize_name(requirement.name)
        if name not in needed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            needed[name] = importlib.metadata.version(name)
            asked += importlib.metadata.requires(name) or []
    assert locked.keys() == needed.keys()
    constraints = (Path(__file__).parents[3] / "constraints.txt").read_text().splitlines()
    pinned = {
        canonicalize_name(name): version for name, version in (line.split("==") for line in constraints if "==" in line)
    }
    assert locked == {name: pinned[name] for name in locked}
