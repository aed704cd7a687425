"""Tables in files of every kind say the same, odd ones too, to training and to serving."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import csv, ipc, parquet
from tests.trainer.data.loading import load
from tests.variants import variants

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import assemble, fingerprint
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.first_look import FirstLook
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.table import transform
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.run import RunKind

ROWS = 60
RNG = np.random.default_rng(0)
TARGETS: dict[str, tuple[Any, str | None]] = {
    "text": (RNG.choice(["red", " green", "blue "], ROWS), None),
    "few whole numbers": (RNG.integers(8, 12, ROWS), None),
    "many whole numbers": (np.arange(ROWS), None),
    "many whole numbers as classes": (np.arange(ROWS), "classification"),
    "numbers": (RNG.standard_normal(ROWS), None),
    "few whole numbers to predict": (RNG.integers(0, 3, ROWS), "regression"),
    "yes and no": (RNG.integers(0, 2, ROWS).astype(bool), None),
    "one class": (np.ones(ROWS, dtype=np.int64), None),
    "zeros of both signs": (np.array([0.0, -0.0, 1.0] * (ROWS // 3)), None),
}


def trained_on(kind: str, path: Path, **args: Any) -> Any:
    """Return what reading gives: encoded inputs and targets, or the error."""
    try:
        return load(kind, path, **args)
    except DataError as error:
        return f"{error.message} {error.remedy}"


def served(loaded: Any, path: Path) -> Any:
    """Return the inputs as the shipped transform encodes the raw rows."""
    known = {column.name: set(column.values.values()) for column in loaded.schema.features}
    schema = json.loads(json.dumps(loaded.schema.shipped(known)))
    return transform.encode_rows(transform.read_rows(path, schema), schema)


def write(table: pa.Table, kind: str, folder: Path) -> Path:
    path = folder / f"t.{kind}"
    if kind == "csv":
        csv.write_csv(table, path)
    elif kind == "parquet":
        parquet.write_table(table, path, row_group_size=25)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    else:
        path.mkdir()
        with ipc.new_stream(str(path / "data-0.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
        (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))
    return path


@pytest.mark.requirement("TRAIN-11", "TRAIN-1")
@pytest.mark.parametrize("target", TARGETS)
def test_a_table_says_the_same_in_every_kind_of_file(target: str, tmp_path: Path) -> None:
    cells, task = TARGETS[target]
    features = {f"f{n}": RNG.standard_normal(ROWS) for n in range(5)}
    features |= {"whole": np.arange(ROWS) * 2**50, "small": RNG.standard_normal(ROWS).astype(np.float32)}
    table = pa.table({**features, "y": cells})
    found = {}
    for kind in ("csv", "jsonl", "parquet", "arrow"):
        loaded = trained_on(kind, write(table, kind, tmp_path), target="y", task=task)
        told = isinstance(loaded, str)
        found[kind] = loaded if told else (*(part.tolist() for part in loaded.samples.base), loaded.feature_names)
    assert found["jsonl"] == found["parquet"] == found["arrow"]
    assert isinstance(found["csv"], str) or np.allclose(found["csv"][0], found["jsonl"][0], rtol=1e-6)


ODD = {
    "blanks around numbers": "a,b,y\n 1, 2 ,x\n3,4,y\n",
    "a plus sign": "a,b,y\n+1,2,x\n3,4,y\n",
    "digits in groups": "a,b,y\n1_0,2,x\n3,4,y\n",
    "too large": "a,b,y\n1e400,2,x\n3,4,y\n",
    "too large for float32": "a,b,y\n1e300,2,x\n3,4,y\n",
    "not a number": "a,b,y\nnan,2,x\n3,4,y\n",
    "a word for nothing": "a,b,y\nNULL,2,x\n3,4,y\n",
    "an empty cell": "a,b,y\n1,,x\n3,4,y\n",
    "an empty target": "a,b,y\n1,2,\n3,4,y\n",
    "the word NA as a class": "a,b,y\n1,2,NA\n3,4,null\n",
    "blank lines": "a,b,y\n1,2,x\n\n  \n,,\n3,4,y\n\n",
    "a line too short": "a,b,y\n1,2,x\n3,4\n",
    "quoted cells": 'a,"b",y\n"1",2,"x, ""y"""\n3,"4","x\ny"\n',
    "a quoted header of two lines": '"a\nb",b,y\n1,2,x\n3,4,y\n',
    "two columns of one name": "a,a,y\n1,2,x\n3,4,y\n",
    "blanks in the header": " a , b,y \n1,2,x\n3,4,y\n",
    "line ends of Windows": "a,b,y\r\n1,2,x\r\n3,4,y\r\n",
    "a byte order mark": "\ufeffa,b,y\n1,2,x\n3,4,y\n",
    "a blank line first": "\na,b,y\n1,2,x\n3,4,y\n",
    "only a header": "a,b,y\n",
    "nothing": "",
    "targets with blanks": "a,b,y\n1,2, 1\n3,4,1 \n5,6,2\n",
    "targets of one value and two names": "a,b,y\n1,2,1\n3,4,1.0\n5,6,2\n",
    "targets with a word for infinity": "a,b,y\n1,2,1\n3,4,inf\n5,6,2\n",
    "no such target": "a,b,z\n1,2,x\n",
}


A, B = '{"a": 1, "y": "u"}\n', '{"a": 2.5, "y": "v"}\n'
ODD_LINES = {
    "plain": A + B,
    "whole after floating": B + A,
    "a last line without its end": A + B[:-1],
    "blank lines": f"\n{A}  \n{B}\n",
    "line ends of Windows": (A + B).replace("\n", "\r\n"),
    "a byte order mark": f"\ufeff{A}{B}",
    "two objects on a line": A[:-1] + B,
    "an object over two lines": A + B.replace(", ", ",\n"),
    "both of these": A[:-1] + A + B.replace(", ", ",\n"),
    "keys in another order": A + '{"y": "v", "a": 2}\n',
    "a key twice": A + '{"a": 1, "a": 2, "y": "v"}\n',
    "another key": A + '{"b": 1, "y": "v"}\n',
    "one key more": A + '{"a": 1, "b": 1, "y": "v"}\n',
    "one key less": A + '{"y": "v"}\n',
    "zeros of all signs": A + '{"a": -0, "y": "v"}\n{"a": -0.0, "y": "v"}\n{"a": 0, "y": "v"}\n',
    "a zero of no sign": A + '{"a": -0.0, "y": "v"}\n',
    "a large whole number": A + '{"a": 123456789012345678901234567890, "y": "v"}\n',
    "too large": A + '{"a": 1e400, "y": "v"}\n',
    "not a number": A + '{"a": NaN, "y": "v"}\n',
    "numbers in quotes": A + '{"a": "2", "y": "v"}\n',
    "yes and no": '{"a": true, "y": "u"}\n{"a": false, "y": "v"}\n',
    "yes and one": '{"a": true, "y": "u"}\n{"a": 1, "y": "v"}\n',
    "nothing": A + '{"a": null, "y": "v"}\n',
    "nothing first": '{"a": null, "y": "v"}\n' + A,
    "an object": A + '{"a": {"b": 1}, "y": "v"}\n',
    "targets with blanks": A + '{"a": 1, "y": " u"}\n{"a": 1, "y": "v"}\n',
    "targets of several kinds": A + '{"a": 1, "y": 1}\n{"a": 1, "y": true}\n',
    "whole and floating targets": '{"a": 1, "y": 1}\n{"a": 2, "y": 1.0}\n{"a": 2, "y": 2}\n',
    "floating and whole targets": '{"a": 1, "y": 1.0}\n{"a": 2, "y": 1}\n{"a": 2, "y": 2}\n',
    "floating targets": '{"a": 1, "y": 1.5}\n{"a": 2, "y": 1}\n{"a": 2, "y": 0.1}\n',
    "large targets": '{"a": 1, "y": 1}\n{"a": 2, "y": 12345678901234567890}\n',
    "half a character": A + '{"a": 1, "y": "\\ud800"}\n',
    "a tab in a text": A + '{"a": 1, "y": "v\t"}\n',
    "a list": A + "[1, 2]\n",
    "no JSON": A + "{a: 1}\n",
}


@pytest.mark.requirement("PIPE-2", "TRAIN-1")
@pytest.mark.parametrize(("kind", "odd"), [*(("csv", odd) for odd in ODD), *(("jsonl", odd) for odd in ODD_LINES)])
def test_odd_tables_are_served_as_they_were_trained_on_or_refused_with_a_remedy(
    kind: str, odd: str, tmp_path: Path
) -> None:
    path = tmp_path / f"t.{kind}"
    path.write_bytes((ODD if kind == "csv" else ODD_LINES)[odd].encode())
    for args in ({}, {"task": "regression"}, {"features": ["a"]}):
        loaded = trained_on(kind, path, target="y", **args)
        if isinstance(loaded, str):
            assert "data.args" in loaded or path.name in loaded
        else:
            assert np.array_equal(served(loaded, path), loaded.samples.base[0].numpy(), equal_nan=True)


@pytest.mark.requirement("TRAIN-11", "REPRO-4")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_numbers_are_parsed_as_python_does(kind: str, tmp_path: Path) -> None:
    """Doubles as their shortest text, as more digits than they have, and as whole numbers."""
    numbers = RNG.integers(0, 2**64, 3_000, dtype=np.uint64).view(np.float64)
    numbers = numbers[np.isfinite(numbers) & (np.abs(numbers) < 1e38)]
    texts = [text for number in numbers.tolist() for text in (repr(number), f"{number:.25e}")]
    texts += [str(int(number)) for number in numbers.tolist() if 1 < abs(number) < 1e18]
    texts += ["5e-324", "2.4703282292062327e-324", "9007199254740993", "0.1E+1"]
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        path.write_text("\n".join(["a,y", *(f"{text},{n % 2}" for n, text in enumerate(texts))]))
    else:
        path.write_text("\n".join(f'{{"a": {text}, "y": {n % 2}}}' for n, text in enumerate(texts)))
    loaded = load(kind, path, target="y")
    with np.errstate(over="ignore"):
        assert np.array_equal(loaded.samples.base[0][:, 0].numpy(), np.array([*map(float, texts)]).astype(np.float32))


@pytest.mark.requirement("TRAIN-11", "PIPE-2")
def test_a_bad_cell_far_down_is_named_by_its_line(tmp_path: Path) -> None:
    lines = ["a,b,y", *(f"{n}.5,{n},{n % 3}" for n in range(90_000))]
    lines[70_001] = "1,oops,2"
    (tmp_path / "t.csv").write_text("\n".join(lines))
    with pytest.raises(DataError, match="t.csv line 70002, column 'b': 'oops' is no finite number"):
        load("csv", tmp_path / "t.csv", target="y")


@pytest.mark.requirement("TRAIN-11")
@pytest.mark.parametrize("stored", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "f2", "i4", "u1", "?"])
def test_arrays_are_converted_as_they_are_read(kind: str, stored: Any, tmp_path: Path) -> None:
    x = (RNG.standard_normal((300, 7)) * 50).astype(kind)
    y = RNG.integers(0, 3, 300).astype("u1")
    stored(tmp_path / "a.npz", x=x, y=y)
    loaded = load("npz", tmp_path / "a.npz")
    wanted = x.astype(np.float32 if kind not in {"i4", "u1"} else np.int64)
    assert torch.equal(loaded.samples.tensors[0], torch.from_numpy(wanted))
    assert loaded.samples.tensors[1].tolist() == y.tolist()
    stored(tmp_path / "b.npz", x=np.asfortranarray(x), y=y)
    assert torch.equal(load("npz", tmp_path / "b.npz").samples.tensors[0], torch.from_numpy(wanted))
    whole = (tmp_path / "a.npz").read_bytes()
    place = len(whole) // 3
    (tmp_path / "a.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    with pytest.raises(DataError, match="cannot be read"):
        load("npz", tmp_path / "a.npz")


def look_at(path: Path) -> dict[str, Any]:
    loaded = load("npz", path) if path.suffix == ".npz" else load(path.suffix[1:], path, target="y")
    return data_evidence(from_loaded(loaded, SplitSection(), source="file"), path.parent)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-11", "TRAIN-10", "REPRO-4")
@pytest.mark.parametrize("kind", variants(["npz", "csv", "parquet"], quick=["parquet"]))
def test_the_first_look_at_a_large_file_calls_no_python_for_each_row(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it hold another copy of the rows: what it needs beside them hardly grows with them."""
    for module in (fingerprint, assemble):
        monkeypatch.setattr(module, "MAX_SAMPLES_READ", 2000)
    looks = [_counted(_large_file(kind, rows, tmp_path)) for rows in (20_000, 20_000, 120_000)]
    (few_calls, few_bytes), (many_calls, many_bytes) = looks[1:]  # the very first loads libraries
    assert many_calls - few_calls < 100_000 / 10
    assert many_bytes - few_bytes < 1.3 * 100_000 * (20 * 4 + 8)


def _large_file(kind: str, rows: int, folder: Path) -> Path:
    inputs = RNG.standard_normal((rows, 20), dtype=np.float32)
    table = pa.table({**{f"f{n}": inputs[:, n] for n in range(20)}, "y": RNG.integers(0, 3, rows)})
    path = folder / f"{rows}.{kind}"
    if kind == "npz":
        np.savez(path, x=inputs, y=table["y"].to_numpy())
    elif kind == "csv":
        csv.write_csv(table, path)
    else:
        parquet.write_table(table, path)
    return path


def _counted(path: Path) -> tuple[int, int]:
    """Return how often a look calls Python functions, and the most bytes that it holds in arrays and objects."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    tracemalloc.start()
    sys.setprofile(count)
    try:
        look_at(path)
    finally:
        sys.setprofile(None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return calls, peak


def large(path: Path, rows: int = 24_000) -> None:
    """Write a table that is large enough for its first look to be kept."""
    inputs = np.random.default_rng(5).standard_normal((rows, 3)).astype(np.float32)
    np.savez(path, x=inputs, y=np.arange(rows) % 2)


def looked(path: Path, kept: Path, *, reads: bool) -> dict[str, Any]:
    splits = from_loaded(
        load("npz", path, standardize=True), SplitSection(), source="npz", looks=FirstLook(kept, reads=reads)
    )
    return data_evidence(splits, path.parent)


@pytest.mark.requirement("TRAIN-11", "REPRO-4", "PIPE-2")
def test_a_first_look_is_taken_up_for_the_same_content_and_no_other(tmp_path: Path) -> None:
    path, kept = tmp_path / "a.npz", tmp_path / "looks"
    large(path)
    assert looked(path, kept, reads=True).first_look == "now"
    first = looked(path, kept, reads=False)
    again = looked(path, kept, reads=True)
    assert (first.first_look, again.first_look) == ("now", "known"), "planning looks itself"
    assert again == first.model_copy(update={"first_look": "known"})
    path.touch()
    copied = path.rename(tmp_path / "b.npz")
    assert looked(copied, kept, reads=True).first_look == "known", "the content counts, and no name or time"
    with np.load(copied) as archive:
        inputs, targets = archive["x"], archive["y"]
    inputs[17, 2] += 1
    inputs[20] = inputs[21]
    np.savez(copied, x=inputs, y=targets)
    edited = looked(copied, kept, reads=True)
    assert edited.first_look == "now"
    assert edited.fingerprint != first.fingerprint
    for file in kept.iterdir():
        file.write_bytes(file.read_bytes()[:300])
    assert looked(copied, kept, reads=True).first_look == "now", "a torn one is none"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-11", "GATE-2", "REPRO-4")
def test_a_look_that_somebody_made_up_is_refused_by_the_planned_fingerprint(
    tmp_path: Path, make_run: Any, work: Any
) -> None:
    large(tmp_path / "a.npz")
    values = {
        "model": {"use": "mlp", "args": {"hidden": [4]}},
        "data": {"use": "npz", "args": {"path": "a.npz"}},
        "training": {"max_steps": 2},
        "logging": {"tensorboard": False},
    }
    kept = tmp_path / "looks"
    fields = {"code_root": str(tmp_path), "first_looks": str(kept), "max_steps": 2}
    smoke = make_run(tmp_path / "smoke", values, kind=RunKind.SMOKE, **fields)
    assert work(smoke) == 0, smoke.log.read_text()
    planned = smoke.evidence("data")
    assert planned["first_look"] == "now"
    fields["expected"] = {"data": planned["fingerprint"]}
    honest = make_run(tmp_path / "honest", values, **fields)
    assert work(honest) == 0, honest.log.read_text()
    assert honest.evidence("data")["first_look"] == "known"
    (look,) = kept.glob("*.npz")
    with np.load(look) as archive:
        parts = dict(archive)
    parts["train"], parts["test"] = (
        np.sort(np.append(parts["train"][1:], parts["test"][0])).astype(np.int32),
        np.sort(np.append(parts["test"][1:], parts["train"][0])).astype(np.int32),
    )
    np.savez(look, **parts)
    forged = make_run(tmp_path / "forged", values, **fields)
    assert work(forged) == 1
    assert "data changed since the planning gate" in forged.status().failure.message
