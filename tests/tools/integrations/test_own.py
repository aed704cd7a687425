"""Services of models with a `prepare` or a `present` of the user's: the answers of predict.py, by the released code."""

from __future__ import annotations

import base64
import json
import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from tests.tools.integrations.conftest import Service, serving
from tests.tools.integrations.test_generation import write_model
from tests.trainer.jobs.test_predict import answers, released, run, sums
from tests.trainer.jobs.test_predict_texts import told

from trainwright.tools.integrations import deploy, read_signature
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.jobs.export.predict import predict_text

pytestmark = pytest.mark.requirement("SKILL-5")

CODE = """\
import numpy


def prepare(path):
    with open(path, "rb") as file:
        found = file.read()
    if not found:
        raise ValueError("it has no byte")
    return numpy.frombuffer(found[:2], dtype="uint8").astype("float32")


def present(output, path):
    return {"label": [1, 2], "sum": output[0], "size": len(open(path, "rb").read()), "ending": path[-4:]}


def alone(output):
    return "more" if output[0] > output[1] else "less"
"""
FILE = {"kind": "own", "own": {"prepare": "code/serve.py:prepare", "takes": "a file, .dat", "example": "input.dat"}}
TEXT = {"kind": "own", "own": {"prepare": "code/serve.py:prepare", "takes": "a text", "example": "some words"}}
COLUMN = {"name": "load", "kind": "number", "width": 1, "values": {}, "format": None}
SERIES = {"kind": "series", "columns": [COLUMN], "takes_missing": False,
          "series": {"window": 1, "time": "day", "group": None, "every": {}}}  # fmt: skip
PRESENTED = {"kind": "own", "target": "sum", "present": "code/serve.py:present"}


def by_hand(folder: Path, schema: dict[str, Any], code: str = CODE, **files: str) -> Path:
    """Write a final model with code of the user's; its program multiplies two numbers by two weights."""
    schema = {"program": {"file": "model.onnx", "inputs": ["input"]}, "needs": "numpy onnxruntime", **schema}
    resolved = {"class_names": None, "loss": "mse"}
    given = {"schema_json": json.dumps(schema), "predict_py": predict_text(schema)} | files
    write_model(folder, resolved, {"use": "data.py:load"}, **given)
    onnx.save(sums(np.array([[2.0, 0.0], [0.0, 1.0]])), folder / "model.onnx")
    (folder / "code").mkdir()
    (folder / "code" / "serve.py").write_text(code)
    return folder


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.slow
def test_a_service_of_own_code_answers_as_predict_py_does(
    model_of: Any, service_of: Callable[[str], Service], tmp_path: Path
) -> None:
    folder, service = model_of("own")[0], service_of("own")
    texts = ["test aaaa 1", "bbb", "a"]
    wanted = [one["answer"] for one in answers(run(folder, "--json", *texts))]
    found = service.predict(rows=[{"input": text} for text in texts])
    assert found.status_code == 200, found.text
    assert found.json()["predictions"] == wanted
    assert {one["of"] for one in wanted} == {11, 3, 1}
    refused = service.predict(rows=[{"input": "a"}, {"input": ""}])
    assert (refused.status_code, refused.json()["errors"]) == (
        422, [{"field": "rows[1].input", "problem": "no text"}],
    )  # fmt: skip
    shown = service.client.get("/model").json()
    assert {"code/serve.py", "code/letters.py"} <= shown["files"].keys()
    assert (shown["task"], shown["inputs"]["takes"]) == ("own", "a text")
    deploy(folder, tmp_path, ["client"])
    client = runpy.run_path(str(tmp_path / "client" / "client.py"))
    assert client["predict"]([client["EXAMPLE"]], url=service.url)[0]["mood"] in {"low", "high"}


@pytest.mark.slow
def test_a_file_is_uploaded_under_the_ending_that_prepare_takes_and_kept_no_longer_than_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = by_hand(tmp_path / "final_model", FILE | {"answer": PRESENTED})
    deploy(model, tmp_path / "parts", ["service"])
    (tmp_path / "held").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "held"))
    with serving(tmp_path / "parts" / "service") as service:
        answer = service.predict(rows=[{"file": base64_of(b"\x03\x04")}, {"file": base64_of(b"\x05\x06more")}])
        assert answer.json()["predictions"] == [
            {"label": [1, 2], "sum": 6.0, "size": 2, "ending": ".dat"},
            {"label": [1, 2], "sum": 10.0, "size": 6, "ending": ".dat"},
        ]
        problems = {
            content: service.predict(row={"file": content}).json()["errors"][0]["problem"]
            for content in ("", "*", "/é")
        }
        assert problems == {"": "it has no byte", "*": "it is no base64", "/é": "it is no base64"}
        short = service.predict(row={"file": base64_of(b"\x03")})
        assert short.status_code == 422
        assert short.json()["errors"][0]["problem"].startswith("the program does not run on its input of 1 (")
        among = service.predict(rows=[{"file": base64_of(one)} for one in (b"\x03\x04", b"\x03")])
        assert among.json()["errors"][0]["problem"].startswith("rows[1]: the program does not run")
        assert 'predictions_total{label="answer"} 2.0' in service.client.get("/metrics").text
        assert list((tmp_path / "held").glob("row-*")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        PRESENTED | {"present": "code/serve.py:alone"},
        {"kind": "classes", "target": "mood", "classes": ["low", "high"], "are_probabilities": True},
    ],
)
def test_what_predict_py_makes_of_the_samples_outputs_is_what_a_client_gets(
    answer: dict[str, Any], tmp_path: Path
) -> None:
    arrays = {"input": {"shape": [2], "dtype": "float32"}}
    schema = {"kind": "array", "arrays": arrays, "answer": answer}
    model = by_hand(tmp_path / "final_model", schema)
    deploy(model, tmp_path / "parts", ["service"], as_samples=True)
    with serving(tmp_path / "parts" / "service") as service:
        found = service.predict(rows=[{"values": [3, 4]}, {"values": [1, 4]}]).json()["predictions"]
    assert found == [one["answer"] for one in answers(run(model, "--json", "[[3, 4], [1, 4]]"))]


def test_answers_of_predict_py_keep_their_kind_where_the_templates_have_it(tmp_path: Path) -> None:
    classes = {"kind": "classes", "target": "mood", "classes": ["low", "high"]}
    of_classes = by_hand(tmp_path / "classes" / "final_model", TEXT | {"answer": classes})
    found = read_signature(of_classes)
    assert (found.task, found.classes, found.answers, found.target) == (
        "classification", ["low", "high"], "ClassAnswers", "class",
    )  # fmt: skip
    with pytest.raises(TrainwrightError, match=r"those of its predict\.py, which a, b would not change"):
        read_signature(of_classes, classes=["a", "b"])
    numbers = {"kind": "numbers", "target": "x", "names": None}
    found = read_signature(by_hand(tmp_path / "numbers" / "final_model", TEXT | {"answer": numbers}))
    assert (found.task, found.numbers, found.answers) == ("regression", 2, "NumberAnswers")
    named = numbers | {"names": ["x", "y"]}
    assert read_signature(by_hand(tmp_path / "named" / "final_model", TEXT | {"answer": named})).task == "own"
    samples = read_signature(of_classes, classes=["a", "b"], as_samples=True)
    assert (samples.inputs.kind, samples.answers) == ("array", None), "as before, without prepare"


def test_what_the_released_code_imports_is_among_the_packages_in_the_version_of_training(tmp_path: Path) -> None:
    schema = TEXT | {"answer": PRESENTED, "needs": "numpy onnxruntime scikit-learn Packaging unknown"}
    model = by_hand(tmp_path / "final_model", schema)
    (model / "requirements.txt").write_text("# of training\nnumpy==1.0\nscikit_learn==1.9.1\n")
    deploy(model, tmp_path / "parts", ["service"])
    lines = (tmp_path / "parts" / "service" / "requirements.txt").read_text().splitlines()
    assert lines[-3:] == ["# What the code of the model imports; pip finds what these need.",
                          "scikit_learn==1.9.1", "unknown"]  # fmt: skip
    assert "--no-deps" not in (tmp_path / "parts" / "service" / "Dockerfile").read_text()
    deploy(by_hand(tmp_path / "b" / "final_model", TEXT | {"answer": PRESENTED}), tmp_path / "few", ["service"])
    assert "--no-deps" in (tmp_path / "few" / "service" / "Dockerfile").read_text()


@pytest.mark.slow
def test_a_mask_comes_as_a_png_in_the_pictures_own_size_as_predict_py_writes_it(tmp_path: Path) -> None:
    coding = {"classes": ["dark", "light"], "codes": [0, 0xFF0000], "of_colors": True}
    pictures = {"size": [3, 4], "channels": 1, "dtype": "uint8"}
    schema = {"kind": "picture", "pictures": pictures, "answer": {"kind": "mask", "target": "class", **coding}}
    model = by_hand(tmp_path / "final_model", schema)
    released(model, schema, scores_of_pixels())
    (model / "config.yaml").write_text("data: {use: images}\n")
    pixels = np.zeros((6, 8), np.uint8)
    pixels[:, 4:] = 200
    Image.fromarray(pixels).save(tmp_path / "half.png")
    (wanted,) = (one["answer"] for one in answers(run(model, "--json", str(tmp_path / "half.png"))))
    mask = (model / wanted["mask"]).read_bytes()
    deploy(model, tmp_path / "parts", ["service"])
    with serving(tmp_path / "parts" / "service") as service:
        row = {"picture": base64_of((tmp_path / "half.png").read_bytes())}
        found = service.predict(rows=[row, row]).json()["predictions"]
        assert 'predictions_total{label="mask"} 2.0' in service.client.get("/metrics").text
    assert found == [{"mask": base64_of(mask), "shares": wanted["shares"]}] * 2
    assert (read_signature(model).task, read_signature(model).classes) == ("mask", ["dark", "light"])


@pytest.mark.slow
def test_labels_of_which_several_hold_come_as_predict_py_gives_them(tmp_path: Path) -> None:
    schema = {"kind": "table", "columns": [COLUMN, COLUMN | {"name": "heat"}], "takes_missing": False,
              "answer": {"kind": "labels", "target": "faults", "classes": ["worn", "hot"]}}  # fmt: skip
    model = by_hand(tmp_path / "final_model", schema)
    (model / "config.yaml").write_text("data: {use: csv}\n")
    rows = [{"load": 1.0, "heat": 2.0}, {"load": 1.0, "heat": -1.0}, {"load": -1.0, "heat": -1.0}]
    deploy(model, tmp_path / "parts", ["service", "form", "client"])
    with serving(tmp_path / "parts" / "service") as service:
        found = service.predict(rows=rows).json()["predictions"]
        assert 'predictions_total{label="labels"} 3.0' in service.client.get("/metrics").text
    assert found == [one["answer"] for one in answers(run(model, "--json", *map(json.dumps, rows)))]
    assert [one["labels"] for one in found] == [["worn", "hot"], ["worn"], []]
    assert (read_signature(model).task, read_signature(model).classes) == ("labels", ["worn", "hot"])


RAW: dict[str, tuple[dict[int, tuple[int, float]], int, list[Any], str]] = {
    "words": ({65: (1, 5.0)}, 3, ["Ann sees", ["Ann", "sees"], "/etc/hosts.txt"], "words"),
    "question": ({60: (0, 9.0), 62: (1, 9.0)}, 2, [{"ask": "who?", "text": "a <b> c"}], "answer"),
    "choices": ({33: (0, 5.0)}, 1, [{"ask": "which?", "all": ["no", "yes!"]}], "choice"),
    "masked": ({257: (ord("t"), 5.0)}, 260, ["[MASK]his", "notes[MASK].txt"], "text"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", RAW)
def test_texts_with_fields_are_read_and_answered_by_predict_py_and_no_file_is(kind: str, tmp_path: Path) -> None:
    pairs, outputs, rows, key = RAW[kind]
    folder = told(kind, pairs, outputs, tmp_path / "told")
    schema = json.loads((folder / "schema.json").read_text())
    resolved = {"class_names": None, "loss": "cross_entropy", "text": {"block_size": None, "longest": 24}}
    text = {name: (folder / name).read_text() for name in ("predict.py", "schema.json")}
    given = {"predict_py": text["predict.py"], "schema_json": text["schema.json"]}
    model = write_model(tmp_path / "final_model", resolved, {"use": "jsonl"}, **given)
    shutil.copy(folder / "model.onnx", model / "model.onnx")
    deploy(model, tmp_path / "parts", ["service", "client", "form"])
    arguments = [{schema["text"]["column"]: row} if isinstance(row, str) else row for row in rows]
    with serving(tmp_path / "parts" / "service") as service:
        found = service.predict(rows=[{"input": row} for row in rows]).json()["predictions"]
        client = runpy.run_path(str(tmp_path / "parts" / "client" / "client.py"))
        assert key in client["predict"]([client["EXAMPLE"]], url=service.url)[0]
        told_off = service.predict(row={"input": '[{"a": 1}, {"b": 2}]'})
        assert told_off.status_code == 422, told_off.text
    assert found == [one["answer"] for one in answers(run(model, "--json", *map(json.dumps, arguments)))]
    assert (read_signature(model).task, read_signature(model).target) == ("own", "an answer")


def scores_of_pixels() -> Any:
    """Return a program that gives one score a pixel: by how much it is above 100."""
    given = helper.make_tensor_value_info("input", TensorProto.UINT8, ["rows", 1, 3, 4])
    made = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 1, 3, 4])
    limit = onnx.numpy_helper.from_array(np.array(100.0, np.float32), "limit")
    steps = [
        helper.make_node("Cast", ["input"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["real", "limit"], ["output"]),
    ]
    graph = helper.make_graph(steps, "g", [given], [made], [limit])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str, str]] = {
    "code that is not there": (
        TEXT | {"answer": PRESENTED | {"present": "code/other.py:present"}}, {}, r"has no code/other\.py", "verify",
    ),
    "a module of the service's name": (
        TEXT | {"answer": PRESENTED}, {"rows": ""}, "has a module 'rows', and so has the service", "own_rows.py",
    ),
    "a present of pictures that takes their files": (
        {"kind": "picture", "pictures": {"size": [2, 1], "channels": 1}, "answer": PRESENTED}, {},
        "no file or line of a picture", "data.present of the output alone",
    ),
    "a present of a series": (
        SERIES | {"answer": PRESENTED | {"present": "code/serve.py:alone"}}, {},
        "a service words the output of a series itself", "or none",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_service_cannot_do_with_own_code_is_refused(name: str, tmp_path: Path) -> None:
    schema, files, rule, remedy = REFUSED[name]
    given = {} if schema["kind"] == "own" else {"predict_py": ""}
    model = by_hand(tmp_path / "final_model", schema, **given)
    (model / "config.yaml").write_text("data: {use: csv}\n")
    for module, text in files.items():
        (model / "code" / f"{module}.py").write_text(text)
    with pytest.raises(TrainwrightError, match=rule) as caught:
        deploy(model, tmp_path / "parts")
    assert remedy in caught.value.remedy
    assert not (tmp_path / "parts").exists()
