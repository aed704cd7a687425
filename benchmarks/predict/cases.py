"""Cases of `make predict`: small data of every built-in source and task whose raw inputs a final model answers.

Each has its raw test inputs as a user has them, written apart from what trained, and the truth in the user's terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from own import STATES, box_error, boxes, policy, pushes
from row_files import Row, write_rows

ROWS, HELD_OUT = 160, 40
Answer = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Data, a configuration, and what its answers are held to."""

    name: str
    write: Callable[[Path], tuple[list[str], Sequence[Any]]]
    """Writes the data below a folder; returns the raw test inputs as arguments, and their truth."""
    data: dict[str, Any]
    metric: str
    """Whose certified test value the answers must give again."""
    score: Callable[[Sequence[Answer], Sequence[Any]], float]
    model: dict[str, Any] = field(default_factory=lambda: {"use": "mlp", "args": {"hidden": [8]}})
    further: dict[str, Any] = field(default_factory=dict)
    of_rows: Callable[[Path], tuple[list[str], Sequence[Any]]] | None = None
    """Instead of what `write` returns: arguments and truth of the fixed test rows in a folder."""
    by_library: Callable[[Path, Sequence[Any]], list[str]] | None = None
    """What plain transformers writes with the released folder: of the truth, which is the raw inputs there."""

    @property
    def values(self) -> dict[str, Any]:
        """The configuration."""
        if "trainer" in self.further:  # which decides all of these
            return self.further
        loop = {"training": {"epochs": 2}, "loader": {"batch_size": 32}, "logging": {"tensorboard": False}}
        return {"model": self.model, "data": self.data, "metrics": [self.metric]} | loop | self.further


def accuracy(answers: Sequence[Answer], truth: Sequence[Any]) -> float:
    """Return the share of labels that are right."""
    return float(np.mean([answer["label"] == one for answer, one in zip(answers, truth, strict=True)]))


def mae(answers: Sequence[Answer], truth: Sequence[Any]) -> float:
    """Return the mean absolute error of numbers, several by name, or the rows of a forecast."""
    pairs = [(_numbers(answer), np.ravel(one)) for answer, one in zip(answers, truth, strict=True)]
    return float(np.mean([np.abs(np.asarray(said) - true) for said, true in pairs]))


def _numbers(answer: Answer) -> list[float]:
    if "forecast" in answer:
        keys = [key for key in answer["forecast"][0] if key not in {"step", "day", "n"}]
        return [row[key] for row in answer["forecast"] for key in keys]
    return [answer["value"]] if "value" in answer else list(answer["values"].values())


def labelled(answers: Sequence[Answer], truth: Sequence[Any]) -> float:
    """Return the share of labels, of all labels of all inputs, that are right."""
    pairs = list(zip(answers, truth, strict=True))
    return float(
        np.mean([(name in said["labels"]) == (name in one) for said, one in pairs for name in said["probabilities"]])
    )


def _rows(kind: str) -> list[Row]:
    draw = np.random.default_rng(7)
    found = []
    for n in range(ROWS):
        age, plan = int(draw.integers(18, 80)), ("basic", "family", "premium")[n % 3]
        spent = round(float(draw.normal(30 + age / 4, 5)), 2)
        split = "train" if n < ROWS - 2 * HELD_OUT else "validation" if n < ROWS - HELD_OUT else "test"
        row: Row = {"id": f"c{n:03d}", "age": age, "plan": plan, "since": f"2024-{n % 12 + 1:02d}-15",
                    "spent": "" if n % 17 == 3 else spent, "split": split}  # fmt: skip
        late, more = bool(age + 9 * (n % 3) > 55), bool(n % 3 == 2)
        targets: dict[str, Row] = {
            "classes": {"left": "yes" if late else "no"},
            "number": {"price": round(100.0 * spent + age, 1)},
            "numbers": {"price": round(100.0 * spent + age, 1), "visits": age / 10},
            "labels": {"late": int(late), "more": int(more)},
        }
        found.append(row | targets[kind])
    return found


def _table(kind: str, ending: str = "csv", delimiter: str = ",") -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        rows = _rows(kind)
        targets = [name for name in rows[0] if name in {"left", "price", "visits", "late", "more"}]
        write_rows(folder / f"rows.{ending}", rows, delimiter)
        test = [row for row in rows if row["split"] == "test"]
        raw = folder / ("raw.csv" if ending == "csv" else "raw.jsonl")
        write_rows(raw, [{key: row[key] for key in row if key not in {*targets, "split"}} for row in test], delimiter)
        if kind == "labels":
            return [str(raw)], [{name for name in targets if row[name]} for row in test]
        return [str(raw)], [row[targets[0]] if len(targets) == 1 else [row[one] for one in targets] for row in test]

    return write


def _pictures(kind: str) -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        from PIL import Image

        arguments: list[str] = []
        truth: list[Any] = []
        table: list[Row] = []
        for n in range(60):
            split, label = ("train", "train", "validation", "test")[n % 4], ("cat", "dog")[n // 4 % 2]
            size = (8, 8) if kind == "masks" else (12 + n % 5, 9 + n % 7)
            pixels = np.random.default_rng(n).integers(0, 155, (*size, 3)) + 100 * (label == "dog")
            name = f"{split}/{label}/{n:02d}.png" if kind == "classes" else f"{split}/{n:02d}.png"
            path = folder / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
            tags = ["bright"] * (label == "dog") + ["wide"] * (n % 3 == 0)
            table.append({"path": f"photos/{name}", "tags": "|".join(tags) or "plain", "split": split})
            if kind == "masks":
                mask = folder / "masks" / name
                mask.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(np.where(pixels.mean(2) > 110, 255, 0).astype(np.uint8)).save(mask)
                truth += [str(mask)] * (split == "test")
            elif split == "test":
                truth.append(label if kind == "classes" else set(tags or ["plain"]))
            arguments += [str(path)] * (split == "test")
        write_rows(folder / "pictures.csv", table)
        return arguments, truth

    return write


def pixel_accuracy(answers: Sequence[Answer], truth: Sequence[Any]) -> float:
    """Return the share of pixels that are right, in the pictures' own sizes and the masks' own numbers."""
    from PIL import Image

    pairs = [
        (np.asarray(Image.open(one["mask"])), np.asarray(Image.open(true)))
        for one, true in zip(answers, truth, strict=True)
    ]
    return float(np.mean(np.concatenate([(said == true).ravel() for said, true in pairs])))


def _texts(kind: str) -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        words = {"good": "fine lovely schön great 🙂", "bad": "awful poor dull never"}
        rows = []
        for n in range(120):
            mood = ("good", "bad")[n // 3 % 2]
            chosen = np.random.default_rng(n).choice(words[mood].split(), 2 + n % 9)
            split = ("train", "train", "validation", "test")[n % 4]
            target = mood if kind == "classes" else round(len(chosen) * 1.5, 1)
            rows.append({"text": f"{' '.join(chosen)} {n}", "mood": target, "split": split})
        write_rows(folder / "texts.csv", rows)
        test = [row for row in rows if row["split"] == "test"]
        write_rows(folder / "raw.csv", [{"text": row["text"]} for row in test])
        return [str(folder / "raw.csv")], [row["mood"] for row in test]

    return write


def _series(group: str | None = None) -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    window, horizon = 12, 3

    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        from datetime import date, timedelta

        targets = ["sold", "returned"] if group else ["sold"]
        rows: list[Row] = []
        for shop in ("a", "b") if group else ("a",):
            for n in range(200):
                sold = round(50 + 20 * float(np.sin(n / 3.5)) + 5 * (shop == "b"), 3)
                day = (date(2025, 1, 1) + timedelta(days=n)).isoformat()
                rows.append({"day": day, "shop": shop, "sold": sold, "returned": round(sold / 9, 3)})
        columns = ["day", *(["shop"] if group else []), *targets]
        rows = [{key: row[key] for key in columns} for row in rows]
        write_rows(folder / "rows.csv", rows)
        edge = (date(2025, 1, 1) + timedelta(days=160)).isoformat()
        arguments, truth = [], []
        for shop in dict.fromkeys(row.get("shop") for row in rows):
            own = [row for row in rows if row.get("shop") == shop]
            for start in range(len(own) - window - horizon + 1):
                ahead = own[start + window : start + window + horizon]
                if ahead[0]["day"] >= edge:
                    arguments.append(str(folder / f"raw-{shop}-{start}.csv"))
                    write_rows(Path(arguments[-1]), own[start : start + window])
                    truth.append([row[one] for row in ahead for one in targets])
        return arguments, truth

    return write


def _arrays(kind: str) -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        x = np.random.default_rng(3).normal(size=(150, 4, 5)).astype(np.float32)
        y = (x.mean((1, 2)) > 0).astype(np.int64) if kind == "classes" else x.sum((1, 2)).astype(np.float32)
        np.savez(folder / "samples.npz", x=x, y=y)
        return [], []

    return write


def array_rows(folder: Path) -> tuple[list[str], Sequence[Any]]:
    """Return the array of fixed rows, and their targets."""
    targets = np.load(folder / "target.npy")
    return [str(folder / "input.npy")], [str(one) for one in targets] if targets.dtype.kind == "i" else list(targets)


def named_rows(folder: Path, name: str) -> tuple[list[str], Sequence[Any]]:
    """Return fixed rows of one of scikit-learn's tables as CSV, and their targets by its names."""
    from sklearn import datasets

    table = getattr(datasets, f"load_{name}")()
    rows, targets = np.load(folder / "input.npy"), np.load(folder / "target.npy")
    write_rows(folder / "raw.csv", [dict(zip(table.feature_names, row.tolist(), strict=True)) for row in rows])
    named = "target_names" in table
    return [str(folder / "raw.csv")], [str(table.target_names[one]) if named else float(one) for one in targets]


def _nothing(_: Path) -> tuple[list[str], Sequence[Any]]:
    """Write nothing: the library has the data."""
    return [], []


GIVEN = {"by": "given", "column": "split"}
TIME = {"by": "time", "time": "day", "borders": ["2025-05-01", "2025-06-10"]}
CNN = {"use": "cnn", "args": {"channels": [4]}}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
BERT = {"use": "transformers", "args": {"config": {"model_type": "bert", **SIZES}}}
BINARY = {"loss": "bce_with_logits"}
SCALED = {"target_scaling": "standardize", "loss": "mse"}
TAGS = {"path": "pictures.csv", "target": "tags", "separator": "|"}
MOOD = {"path": "texts.csv", "text": "text", "target": "mood"}


def _of_table(use: str, ending: str, target: Any) -> dict[str, Any]:
    place = {"url": "sqlite:///rows.db", "table": "customers"} if ending == "db" else {"path": f"rows.{ending}"}
    features = ["age", "plan", "since", "spent"]
    return {"use": use, "args": place | {"target": target, "features": features}, "split": GIVEN}


def _of_pictures(split: dict[str, Any], **args: Any) -> dict[str, Any]:
    return {"use": "images", "args": {"size": [9, 8]} | args, "split": split}


def _of_series(target: Any, **further: str) -> dict[str, Any]:
    series = {"window": 12, "horizon": 3, **further}
    return {"use": "csv", "args": {"path": "rows.csv", "target": target, "series": series}, "split": TIME}


def _of_texts(tokenizer: str) -> dict[str, Any]:
    return {"use": "csv", "args": MOOD | {"tokenizer": tokenizer}, "split": GIVEN}


DATA = """\
import torch
from serve import prepare


class Sentences(torch.utils.data.Dataset):
    def __init__(self, split):
        self.raw_inputs = [f"{split} {'ab'[n % 2] * (3 + n % 5)} {n}" for n in range(40)]

    def __len__(self):
        return len(self.raw_inputs)

    def __getitem__(self, place):
        text = self.raw_inputs[place]
        return torch.from_numpy(prepare(text)), torch.tensor([float(text.count("a"))])


def load():
    return {split: Sentences(split) for split in ("train", "validation", "test")}
"""
SERVE = """\
import numpy
from letters import LETTERS


def prepare(text):
    return numpy.array([text.count(letter) for letter in LETTERS], dtype=numpy.float32)


def present(output):
    return {"value": float(output[0])}
"""


def _own(folder: Path) -> tuple[list[str], Sequence[Any]]:
    """Write a data set of the user's, with the functions that serve it."""
    for name, text in (("data.py", DATA), ("serve.py", SERVE), ("letters.py", 'LETTERS = "abt"\n')):
        (folder / name).write_text(text)
    sentences = [f"test {'ab'[n % 2] * (3 + n % 5)} {n}" for n in range(40)]
    return sentences, [float(text.count("a")) for text in sentences]


OWN = {"use": "data.py:load", "prepare": "serve.py:prepare", "present": "serve.py:present"}
NPZ = {"use": "npz", "args": {"path": "samples.npz"}}
MASKS = {"path": "photos", "masks": "masks", "classes": {"dark": 0, "light": 255}, "size": 8}
UNET = {"use": "unet", "args": {"depth": 1, "width": 4}}
LEFT, PRICES, LABELS = "left", ["price", "visits"], ["late", "more"]
CASES = [
    Case("csv classes", _table("classes"), _of_table("csv", "csv", LEFT), "accuracy", accuracy),
    Case("csv by semicolons, a number", _table("number", delimiter=";"), _of_table("csv", "csv", "price"), "mae", mae,
         further=SCALED),
    Case("jsonl, two numbers", _table("numbers", "jsonl"), _of_table("jsonl", "jsonl", PRICES), "mae", mae,
         further=SCALED),
    Case("parquet, two labels", _table("labels", "parquet"), _of_table("parquet", "parquet", LABELS), "accuracy",
         labelled, further=BINARY),
    Case("csv classes, one output", _table("classes"), _of_table("csv", "csv", LEFT), "accuracy", accuracy,
         further=BINARY),
    Case("picture folders", _pictures("classes"), _of_pictures({"by": "given"}, path="photos"), "accuracy", accuracy,
         CNN),
    Case("pictures of a table, labels", _pictures("labels"), _of_pictures(GIVEN, **TAGS), "accuracy", labelled, CNN,
         BINARY),
    Case("masks of pictures", _pictures("masks"), _of_pictures({"by": "given"}, **MASKS), "accuracy", pixel_accuracy,
         UNET),
    Case("texts, classes", _texts("classes"), _of_texts("bpe:300"), "accuracy", accuracy, BERT),
    Case("texts, a number", _texts("number"), _of_texts("characters"), "mae", mae, BERT, {"loss": "mse"}),
    Case("a series", _series(), _of_series("sold"), "mae", mae, {"use": "dlinear"}, SCALED),
    Case("two series, two targets", _series("shop"), _of_series(["sold", "returned"], group="shop"), "mae", mae,
         further=SCALED),
    Case("data code of the user's own", _own, OWN, "mae", mae, further={"loss": "mse"}),
    Case("boxes of pictures, by own code", boxes, OWN, "mae", box_error, CNN, {"loss": "mse"}),
    Case("a policy", policy, STATES, "accuracy", pushes,
         further={"metrics": ["accuracy", {"use": "pole.py:balanced", "episodes": 20}]}),
    Case("excel classes", _table("classes", "xlsx"), _of_table("excel", "xlsx", LEFT), "accuracy", accuracy),
    Case("orc, a number", _table("number", "orc"), _of_table("orc", "orc", "price"), "mae", mae, further=SCALED),
    Case("arrow, two labels", _table("labels", "arrow"), _of_table("arrow", "arrow", LABELS), "accuracy", labelled,
         further=BINARY),
    Case("sql, two numbers", _table("numbers", "db"), _of_table("sql", "db", PRICES), "mae", mae, further=SCALED),
    Case("csv classes, without ONNX", _table("classes"), _of_table("csv", "csv", LEFT), "accuracy", accuracy,
         further={"deployment": {"formats": ["safetensors"]}}),
    Case("iris", _nothing, {"use": "iris"}, "accuracy", accuracy, of_rows=partial(named_rows, name="iris")),
    Case("diabetes", _nothing, {"use": "diabetes"}, "mae", mae, further=SCALED,
         of_rows=partial(named_rows, name="diabetes")),
    Case("digits", _nothing, {"use": "digits"}, "accuracy", accuracy, CNN, of_rows=array_rows),
    Case("npz classes", _arrays("classes"), NPZ, "accuracy", accuracy, of_rows=array_rows),
    Case("npz, a number", _arrays("number"), NPZ, "mae", mae, further=SCALED, of_rows=array_rows),
]  # fmt: skip
