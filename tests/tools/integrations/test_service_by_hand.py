"""The service of models that are written by hand: rows that break it, settings that it refuses, work off its loop."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.tools.integrations.conftest import serving
from tests.tools.integrations.test_generation import NPZ, TEXT, TOKENS, write_model

from trainwright.tools.integrations import deploy
from trainwright.trainer.prediction.assembly import assembled

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]

SCHEMA = {"text": {"max_length": 24, "padding": 0, "target": "topic", "tokenizer": {"name": "bytes"}}}


def text_model(folder: Path) -> Path:
    """Write a model of texts whose program counts tokens."""
    write_model(
        folder, {"text": TOKENS}, TEXT, schema_json=json.dumps(SCHEMA),
        predict_py=assembled("text", "classes", ""),
    )  # fmt: skip
    given = [
        helper.make_tensor_value_info(n, TensorProto.INT64, ["rows", "at"]) for n in ("input_ids", "attention_mask")
    ]
    made = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 2])
    weights = onnx.numpy_helper.from_array(np.array([[1.0, -1.0]], dtype=np.float32), "weights")
    axes = onnx.numpy_helper.from_array(np.array([1]), "axes")
    steps = [
        helper.make_node("ReduceSum", ["attention_mask", "axes"], ["count"], keepdims=1),
        helper.make_node("Cast", ["count"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["number", "weights"], ["output"]),
    ]
    graph = helper.make_graph(steps, "g", given, [made], [weights, axes])
    onnx.save(
        helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx"
    )
    return folder


@pytest.mark.long
def test_numbers_and_texts_that_no_program_takes_are_refused_with_their_field(tmp_path: Path) -> None:
    large = 10**400
    deploy(write_model(tmp_path / "array" / "final_model", {}, NPZ), tmp_path / "of-array", ["service"])
    with serving(tmp_path / "of-array" / "service") as service:
        for value, words in (
            (large, "too large"),
            (float("inf"), "not finite"),
            ("x", "no number"),
            ([1], "no number"),
        ):
            content = json.dumps({"rows": [{"values": [1, 2]}, {"values": [1, value]}]})
            answer = service.client.post("/predict", content=content, headers={"content-type": "application/json"})
            assert answer.status_code == 422, (words, answer.text)
            [problem] = answer.json()["errors"]
            assert (problem["field"], words in problem["problem"]) == ("rows[1].values", True), problem
        odd = service.client.post("/predict", content=b'{"\\ud800": 1}', headers={"content-type": "application/json"})
        assert odd.status_code == 422, odd.text
    deploy(text_model(tmp_path / "text" / "final_model"), tmp_path / "of-text", ["service"])
    with serving(tmp_path / "of-text" / "service") as service:
        answer = service.client.post(
            "/predict", content=b'{"row": {"text": "\\ud800"}}', headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "row.text"), answer.text


COUNTING = """\
import asyncio, json, sys
from pathlib import Path
import app, httpx, rows
from settings import Settings

seen = []

class Counted(rows.Rows):
    def __init__(self, *given):
        super().__init__(*given)
        encode = self.encode
        self.encode = lambda text: (seen.append(asyncio._get_running_loop() is not None), encode(text))[1]

async def ask():
    made = app.create_app(Path.cwd(), Settings(rate=""))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://x") as client:
        found = []
        for texts in json.load(sys.stdin):
            seen.clear()
            answer = await client.post("/predict", json={"rows": [{"text": text} for text in texts]})
            found.append({"on_loop": list(seen), **answer.json()})
        print(json.dumps(found))

app.Rows = Counted
asyncio.run(ask())
"""


def test_a_text_is_tokenized_once_and_much_of_it_off_the_loop(tmp_path: Path) -> None:
    deploy(text_model(tmp_path / "final_model"), tmp_path / "parts", ["service"])
    given = [["short", "x" * 23, "漢字漢字漢字漢字"], ["y" * 1000] * 40]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-c", COUNTING], cwd=tmp_path / "parts" / "service", env=kept, input=json.dumps(given),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    small, large = json.loads(done.stdout)
    assert small["on_loop"] == [True] * 3
    assert large["on_loop"] == [False] * 40
    cut = [one.get("notes") for one in small["predictions"]]
    assert cut == [None, ["text: cut after 24 tokens"], ["text: cut after 24 tokens"]]
    assert len(large["predictions"]) == 40


def assigned(lines: list[str]) -> dict[str, str]:
    """Return the variables of `NAME=value` lines."""
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_example_of_settings_leaves_the_image_reachable(tmp_path: Path) -> None:
    """As `docker run --env-file` lays the example over the image's variables; 127.0.0.2 is outside 127.0.0.1."""
    deploy(write_model(tmp_path / "final_model", {}, NPZ), tmp_path / "parts", ["service"])
    folder = tmp_path / "parts" / "service"
    image = (folder / "Dockerfile").read_text()
    of_image = assigned(re.findall(r"^ENV (.*)$", image, re.MULTILINE)[0].split())
    given = of_image | assigned((folder / ".env.example").read_text().splitlines())
    names = {name.removeprefix("SERVICE_").lower(): value for name, value in given.items() if name[:8] == "SERVICE_"}
    assert names.pop("port") == "8000" == re.findall(r"^EXPOSE (\d+)$", image, re.MULTILINE)[0]
    names["key"] = secrets.token_hex(8)
    with serving(folder, **names) as service:
        assert httpx.get(service.url.replace("127.0.0.1", "127.0.0.2") + "/health").status_code == 200
    with serving(folder, **names | {"host": "127.0.0.1"}) as service, pytest.raises(httpx.ConnectError):
        httpx.get(service.url.replace("127.0.0.1", "127.0.0.2") + "/health")


def test_the_image_has_a_place_for_the_drift_log_that_its_user_owns(tmp_path: Path) -> None:
    deploy(write_model(tmp_path / "final_model", {}, NPZ), tmp_path / "parts", ["service"])
    folder = tmp_path / "parts" / "service"
    image, page = (folder / "Dockerfile").read_text(), (folder / "README.md").read_text()
    [owned] = re.findall(r"^RUN useradd .* service && install -d -o service -g service (\S+)$", image, re.MULTILINE)
    assert re.findall(r"^VOLUME (\S+)$", image, re.MULTILINE) == [owned]
    assert image.index("RUN useradd") < image.index(f"VOLUME {owned}") < image.index("USER service")
    assert f"`{owned}/drift.jsonl`" in page
    assert re.search(rf"^docker run .*-v \S+:{owned} ", page, re.MULTILINE)


REFUSED = {
    "KEY": "shop_prod_your_key_here", "RATE": "600/min", "DRIFT_SECONDS": "0", "MOST_BYTES": "0", "MOST_ROWS": "-1",
    "GRACE_SECONDS": "-1", "PORT": "70000", "THREADS": "-1",
}  # fmt: skip


def test_settings_with_which_it_could_not_answer_start_no_service(tmp_path: Path) -> None:
    deploy(write_model(tmp_path / "final_model", {}, NPZ), tmp_path / "parts", ["service"])
    folder = tmp_path / "parts" / "service"
    example = assigned((folder / ".env.example").read_text().splitlines())
    assert example["SERVICE_KEY"] == REFUSED["KEY"], "the example as it is copied"
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}

    def started(text: str, **changed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", text], cwd=folder, env={**kept, **example, **changed}, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip

    key = secrets.token_hex(8)
    done = started("import settings; print(settings.read_settings().rate)", SERVICE_KEY=key)
    assert done.stdout == "600/minute\n", done.stderr
    every = f"""
import settings
for name, value in {[*REFUSED.items(), ("RATE", "0/minute"), ("DRIFT_SECONDS", "nan")]!r}:
    try:
        settings.read_settings({{"SERVICE_" + name: value}})
    except SystemExit as told:
        assert str(told).startswith("SERVICE_" + name + " is "), told
    else:
        raise AssertionError(name)
"""
    done = started(every)
    assert done.returncode == 0, done.stderr
    done = started("import runpy; runpy.run_path('app.py', run_name='__main__')", SERVICE_KEY=key, SERVICE_RATE="6/min")
    assert done.returncode == 1
    assert "SERVICE_RATE is '6/min'" in done.stderr
    assert "Traceback" not in done.stderr
