"""predict.py with functions of the user's own: what they are shipped with, and what is said where they fail."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from tests.trainer.jobs.test_predict import NUMBERS, answers, released, run, sums

from trainwright.trainer.base.errors import ConfigurationError, IntegrityError
from trainwright.trainer.jobs.export.own_functions import imported_packages, kind_of_raw, ship_function
from trainwright.trainer.jobs.export.predict import predict_text, use_lines, widget_of
from trainwright.trainer.jobs.export.proof import answered, prove
from trainwright.trainer.jobs.export.raw_inputs import raw_inputs_of

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-1")


def test_the_users_functions_are_shipped_with_what_they_import_and_answer(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "m"
    (root / "parts").mkdir(parents=True)
    (root / "parts" / "__init__.py").touch()
    (root / "parts" / "letters.py").write_text('LETTERS = "ab"')
    (root / "unused.py").touch()
    (root / "serve.py").write_text(
        "import numpy\nfrom parts import letters\n\n\n"
        "def prepare(text):\n    if not text:\n        raise ValueError('no text')\n"
        "    return numpy.array([text.count(one) for one in letters.LETTERS], dtype='float32')\n\n\n"
        "def present(output):\n    return 'more a' if output[0] > output[1] else 'more b'\n"
    )
    folder.mkdir()
    entries = [ship_function(f"serve.py:{name}", f"data.{name}", root, folder) for name in ("prepare", "present")]
    shipped = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))
    assert shipped == ["code/parts/__init__.py", "code/parts/letters.py", "code/serve.py"]
    answer = {"kind": "own", "target": "letter", "present": entries[1]}
    released(folder, {"kind": "own", "own": {"prepare": entries[0]}, "answer": answer}, sums(np.eye(2)))
    told = answers(run(folder, "--json", "aab", "abb"))
    assert [one["answer"]["value"] for one in told] == ["more a", "more b"]
    assert run(folder, "").stderr.startswith(": no text")
    with pytest.raises(ConfigurationError, match="defines no 'encode'; it has prepare, present"):
        ship_function("serve.py:encode", "data.prepare", root, folder)


def test_a_present_of_two_parameters_gets_the_input_beside_its_output(tmp_path: Path) -> None:
    (folder := tmp_path / "m").mkdir()
    (folder / "serve.py").write_text("def present(output, raw):\n    return {'raw': raw, 'sum': float(output[0])}\n")
    arrays = {"input": {"shape": [2], "dtype": "float32"}}
    answer = {"kind": "own", "target": "x", "present": "serve.py:present"}
    released(folder, {"kind": "array", "arrays": arrays, "answer": answer}, sums(np.array([[1], [1]])))
    assert [one["answer"] for one in answers(run(folder, "--json", "[[1, 2], [3, 4]]"))] == [
        {"raw": 1, "sum": 3.0}, {"raw": 2, "sum": 7.0}]  # fmt: skip


WRITES_ON = """\
import numpy


def prepare(text):
    return numpy.array([text.count(one) for one in "ab"], dtype="float32")


def present(output, text, run):
    while output[0] < 3:
        text = text + "a"
        output = run(prepare(text))
    return text if text[0] != "c" else run(numpy.zeros(3))
"""


def test_a_present_that_takes_run_calls_the_program_as_often_as_it_wants(tmp_path: Path) -> None:
    (folder := tmp_path / "m").mkdir()
    (folder / "serve.py").write_text(WRITES_ON)
    schema = {"kind": "own", "own": {"prepare": "serve.py:prepare"}}
    answer = {"kind": "own", "target": "x", "present": "serve.py:present"}
    released(folder, {**schema, "answer": answer}, sums(np.eye(2), shape=("rows", 2)))
    done = run(folder, "--json", "b", "aaab", "c")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["answer"]["value"] for one in lines if "answer" in one] == ["baaa", "aaab"]
    assert "present fails on its output: its input is 3, the model takes 2" in done.stderr


CODE = """\
import numpy


def prepare(path):
    return numpy.load(path)


def present(output, path):
    return {"level": ["low", "high"][int(output[0] // 10)]}
"""


def test_an_input_that_is_refused_is_told_by_name_and_the_others_are_answered(tmp_path: Path) -> None:
    folder, outputs = tmp_path / "m", tmp_path / "outputs.npy"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "serve.py").write_text(CODE)
    answer = {"kind": "own", "target": "x", "present": "code/serve.py:present"}
    released(
        folder,
        {"kind": "own", "own": {"prepare": "code/serve.py:prepare"}, "answer": answer},
        sums(np.eye(2), shape=("rows", 2)),
    )
    held = {"low": [1, 2], "objects": [{}], "long": [1, 2, 3], "beyond": [30, 4], "high": [10, 4]}
    for name, values in held.items():
        np.save(tmp_path / f"{name}.npy", np.array(values), allow_pickle=True)
    paths = [str(tmp_path / f"{name}.npy") for name in ("low", "objects", "absent", "long", "beyond", "high")]
    done = run(folder, "--json", "--outputs", str(outputs), *paths)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["input"]["input"] for one in lines] == paths
    assert [one["answer"]["level"] for one in lines if "answer" in one] == ["low", "high"]
    assert [one["error"].removeprefix(path) for one, path in zip(lines, paths, strict=True) if "error" in one] == [
        ": it holds Python objects, or no array at all, and is refused",
        f": FileNotFoundError: [Errno 2] No such file or directory: '{paths[2]}'",
        ": its input is 3, the model takes 2.",
        ": present fails on its output: IndexError: list index out of range.",
    ]
    assert done.stderr.splitlines()[-1] == "4 of 6 inputs refused; the others are answered."
    assert (done.returncode, done.stderr.count("says what prepare takes")) == (2, 1)
    assert np.load(outputs).tolist() == [[1, 2], [10, 4]]


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("numpy.zeros(2)", "ecg.csv: prepare gave 1 array, the program takes x, patient. Let it return"),
        ("[numpy.zeros(2)] * 3", "ecg.csv: prepare gave 3 arrays, the program takes x, patient."),
        ("{'x': numpy.zeros(2)}", "ecg.csv: prepare gave x, the program takes x, patient."),
        ("{}['lead']", "ecg.csv: KeyError: 'lead'"),
        ("numpy.zeros(2), numpy.zeros(5)", "ecg.csv: its patient is 5, the model takes 2. Give inputs of the size"),
    ],
)
def test_an_export_says_what_a_prepare_gave_and_what_the_program_takes(
    returned: str, told: str, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "serve.py").write_text(f"import numpy\n\n\ndef prepare(file):\n    return {returned}\n")
    one, two = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 2]) for name in ("x", "patient"))
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["rows", 2])
    graph = helper.make_graph([helper.make_node("Add", ["x", "patient"], ["out"])], "g", [one, two], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    own, program = {"prepare": "code/serve.py:prepare"}, {"file": "model.onnx", "inputs": ["x", "patient"]}
    released(folder, {"kind": "own", "own": own, "answer": NUMBERS, "program": program}, model)
    with pytest.raises(IntegrityError) as refused:
        answered(folder, ["ecg.csv"], tmp_path, "numpy onnxruntime", "Change `prepare`.")
    assert told in refused.value.message
    assert "File " not in refused.value.message
    assert refused.value.remedy == "Change `prepare`."


def test_the_packages_that_shipped_functions_import_are_needed_under_the_names_that_pip_has_for_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "serve.py").write_text(
        "import json\nfrom typing import TYPE_CHECKING\nimport filters\n"
        "if TYPE_CHECKING:\n    import pandas\n\n\ndef prepare(text):\n    import torch\n    return torch.zeros(2)\n"
        "\n\nif __name__ == '__main__':\n    import matplotlib\n"
    )
    (tmp_path / "code" / "filters.py").write_text("from sklearn import metrics\nimport scipy.signal, not_there\n")
    assert imported_packages(tmp_path) == ["scipy", "scikit-learn", "torch"]


def test_a_package_that_only_a_prepare_imports_is_named_where_it_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "serve.py").write_text("def prepare(text):\n    import not_there\n")
    own = {"prepare": "code/serve.py:prepare"}
    released(folder, {"kind": "own", "own": own, "answer": NUMBERS, "needs": "numpy not-there"}, sums(np.eye(2)))
    done = run(folder, "a")
    assert done.stderr.splitlines() == [
        "No module named 'not_there'. predict.py needs numpy not-there.", "pip install numpy not-there"]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("records/00001_lr.dat", ("a file, .dat", "input.dat")),
        ("/data/head.nii.gz", ("a file, .nii.gz", "input.nii.gz")),
        ("It is fine.", ("a text", "some words")),
        ("about 1.5", ("a text", "some words")),
        ("", ("a text", "some words")),
    ],
)
def test_the_line_of_use_of_an_own_input_names_its_kind_and_none_of_the_users(
    raw: str, wanted: tuple[str, str]
) -> None:
    assert kind_of_raw(raw) == wanted
    own = {"prepare": "code/serve.py:prepare", "takes": wanted[0], "example": wanted[1]}
    schema = {"kind": "own", "own": own, "answer": NUMBERS, "needs": "numpy"}
    assert use_lines(schema)[0].startswith("python predict.py --json ")
    assert wanted[1] in use_lines(schema)[0]
    assert "INPUT\n" not in predict_text(schema).partition("from __future__")[0]


def test_answers_that_cannot_be_compared_are_told_with_the_reason(tmp_path: Path) -> None:
    session: Any = SimpleNamespace(work=SimpleNamespace(splits=SimpleNamespace(samples={"train": ["a"]})))
    served: Any = None
    assert prove(session, tmp_path, served, {"kind": "table"}) == (
        "which rows of the files the held-out samples are is not known")  # fmt: skip


def test_the_raw_inputs_of_a_part_are_those_of_its_samples() -> None:
    class Sentences(torch.utils.data.Dataset[Any]):
        raw_inputs = ("a", "b", "c")

    assert raw_inputs_of(torch.utils.data.Subset(Sentences(), [2, 0])) == ["c", "a"]
    assert raw_inputs_of([1, 2]) is None


@pytest.mark.requirement("PHASE-6")
@pytest.mark.parametrize(
    ("schema", "example"),
    [
        ({"kind": "text"}, [{"text": "some words"}]),
        ({"kind": "masked", "text": {"column": "text", "mark": "[MASK]"}}, [{"text": "some [MASK]"}]),
        (
            {"kind": "question", "text": {"question": "q", "context": "c"}},
            [{"text": "Which words?", "context": "These are some words."}],
        ),
        ({"kind": "table", "columns": [{"name": "age", "kind": "number", "median": 31.0}]},
         [{"structuredData": {"age": [31.0]}}]),
        ({"kind": "own", "own": {}}, []),
    ],
)  # fmt: skip
def test_the_hubs_widget_has_the_made_up_input_where_it_takes_its_kind(
    schema: dict[str, Any], example: list[dict[str, Any]]
) -> None:
    assert widget_of(schema) == example
