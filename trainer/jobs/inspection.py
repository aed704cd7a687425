"""Inspection of data, model and machine before a plan: `python -P -m trainwright.trainer.jobs.inspection FOLDER`.

Reads `order.json` (data and model as a configuration names them, code root; target or machine alone), leaves
`report.json`. No user code runs, no weights are read and nothing is fetched: a model is counted from its configuration
alone. It is no evidence.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil
import torch

from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sections import SplitSection, targets_of
from trainwright.trainer.data.sources import SOURCES, load_source, open_source, scan_source
from trainwright.trainer.data.sources.images import Images
from trainwright.trainer.data.sources.row_files import RowFiles
from trainwright.trainer.data.split_methods.given import MEANT
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.table.infer import infer_target
from trainwright.trainer.data.table.schema import ROWS
from trainwright.trainer.data.table.transform import MISSING, number
from trainwright.trainer.estimation.processor import this_machine
from trainwright.trainer.jobs.answering import answer
from trainwright.trainer.jobs.inspected_model import inspected_model, tokenizer_of
from trainwright.trainer.jobs.row_forms import facts_of, form_of, text_of
from trainwright.trainer.jobs.table_times import times_of

MAX_COLUMNS = 60
MAX_READ = 20_000
"""Rows, evenly spread, of which columns are described and texts are measured in characters."""
MAX_TOKENIZED = 1000
MAX_CLASSES = 50
MAX_COUNTED = 8
"""Columns whose classes are counted while it is not known which is predicted."""
MIN_OF_A_VALUE = 10
"""Rows of each value, from which on it is no chance that one column tells another."""
MIN_THINGS, MIN_ROWS_OF_A_THING = 12, 1.5
"""That a column numbers, and rows of each in the mean (as data/leaks/groups.py has it)."""
FEW_INTEGERS = 20
"""Different whole numbers up to which a column is taken for classes (as data/sources/targets.py has it)."""
CHARACTERS_A_TOKEN = 4.0
"""English text under the common sub-word tokenizers; where the model's own is not here."""
WORDS_OF_TEXT = 3.0


def main(folder: Path) -> int:
    """Inspect as ordered. Returns the process's exit code."""
    return answer(folder, _inspected, remedy="Correct the file or folder, and plan again.")


def _inspected(order: dict[str, Any]) -> dict[str, Any]:
    if "machine" in order:
        return {"machine": _machine(), "at": time.time()}
    root, model, data, task = Path(order["code_root"]), order.get("model"), order.get("data"), order.get("task")
    if order.get("target_alone"):
        return {"data": _target(order["data"], root)}
    found: dict[str, Any] = {}
    if data is not None:
        ours = "bytes" if (model or {}).get("use", "transformers") != "transformers" else None
        found["data"] = _data(data, root, tokenizer_of(model, root) or ours, task)
        task = task or str((found["data"].get("form") or {"use": data["use"]})["use"])
    if model is not None:
        found["model"] = inspected_model(model, root, task)
    return found | {"machine": _machine(), "at": time.time()}


def _machine() -> dict[str, Any]:
    gpus = []
    for device in range(torch.cuda.device_count()):
        seen = torch.cuda.get_device_properties(device)
        gpus.append({"name": seen.name, "memory_bytes": seen.total_memory, "capability": [seen.major, seen.minor]})
    found = {
        "cores": os.cpu_count(), "ram_bytes": psutil.virtual_memory().total, "gpus": gpus,
        "bitsandbytes": importlib.util.find_spec("bitsandbytes") is not None,
    }  # fmt: skip
    return found if gpus else {**found, "processor": this_machine().as_dict()}


def _data(data: dict[str, Any], root: Path, tokenizer: str | None, task: str | None) -> dict[str, Any]:
    use, args = data["use"], dict(data.get("args") or {})
    if use != "chat" and issubclass(SOURCES[use], RowFiles):
        source = open_source(use, args)
        assert isinstance(source, RowFiles), "by its class"  # noqa: S101
        rows = [row for _, row in source.rows(root)[1]]
        return {"rows": len(rows), "columns": []} | _formed({"use": use, "args": args}, rows, root, tokenizer)
    if data.get("columns_wanted"):  # text and target are not both known: the table as it is
        known = SOURCES[use].form_of({"text": "?"}).model_fields
        args = {**args, "text": args.get("text") or "?"} if use in TABLES else args
        args = {key: value for key, value in args.items() if key in known and key != "target"}
    frame = scan_source(use, args, root)
    if frame is None:
        return _of_samples(load_source(use, args, root, SplitSection()))
    named = data.get("args") or {}
    found = _of_frame(frame, named.get("text"), named.get("target"), is_table=use in TABLES, named=data)
    if use in WITH_FORMS and set(named) <= {"path", "tokenizer"} and (task is None or task in OF_FORMS):
        rows = frame.gather_every(max(found["rows"] // MAX_TOKENIZED, 1)).head(MAX_TOKENIZED).collect().to_dicts()
        form = form_of(rows, OF_FORMS.get(str(task)))
        if form is not None and (form["use"] != "chat" or use != "csv"):
            return found | _formed(form, rows, root, named.get("tokenizer") or tokenizer)
    if use == "images" and named.get("masks"):
        found["classes"] = dict.fromkeys(Images.model_validate(args).class_codes, 0)
    elif use == "images" and not named.get("target"):
        found |= _classes(frame, "label")
    column = "text" if use in {"text", "chat"} else found["text"]
    if column is not None:
        found["tokens"] = _tokens(_texts(frame, column, found["rows"]), root, named.get("tokenizer") or tokenizer)
    return found


def _target(data: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return the column that is predicted, or the classes of a source without columns; of tables within a second."""
    use, args = data["use"], dict(data.get("args") or {})
    targets, frame = targets_of(args), scan_source(use, args, root)
    if frame is None:
        return _of_samples(load_source(use, args, root, SplitSection()))
    if targets:
        header = {"header": frame.collect_schema().names()}
        known, one = set(targets) <= {*header["header"]}, targets[0] if len(targets) == 1 else None
        return (_of_frame(frame.select(targets), None, one, is_table=True) if known else {}) | header
    return _classes(frame, "label") if use == "images" and not args.get("masks") else {}


TABLES = ("csv", "jsonl", "parquet", "orc", "arrow", "excel")
WITH_FORMS = ("csv", "jsonl", "parquet", "arrow")
"""Tables that the sources of forms read too."""
OF_FORMS = {
    "token_classification": "token_classification", "question_answering": "question_answering",
    "multiple_choice": "multiple_choice", "seq2seq": "seq2seq", "instruction": "chat",
}  # fmt: skip
"""Tasks of a plan, and the source of each."""


def _formed(form: dict[str, Any], rows: list[dict[str, Any]], root: Path, tokenizer: str | None) -> dict[str, Any]:
    """Return a form with the lengths of its texts, and of those that are to be written."""
    use, args = form["use"], form["args"]
    tokenizer = args.get("tokenizer") or tokenizer
    some = rows[:: max(len(rows) // MAX_TOKENIZED, 1)][:MAX_TOKENIZED]
    found: dict[str, Any] = {"form": {**form, "facts": facts_of(form, some)}}
    if use == "chat":
        texts = [json.dumps(row, ensure_ascii=False, default=str) for row in some]
    else:
        texts = [text_of(use, args, row) for row in some]
    found["tokens"] = _tokens(texts, root, tokenizer)
    if use == "seq2seq":
        written = [str(row.get(args.get("target", "target"))) for row in some]
        found["target_tokens"] = _tokens(written, root, tokenizer)
    return found


def _of_samples(loaded: Any) -> dict[str, Any]:
    """Return rows and classes of a source without a table of rows."""
    if isinstance(loaded, Splits):
        return {"rows": sum(len(samples) for samples in loaded.samples.values()), "columns": []}
    targets = np.asarray(loaded.samples.targets()) if hasattr(loaded.samples, "targets") else None
    found: dict[str, Any] = {"rows": len(loaded.samples), "columns": []} | _inputs(loaded.samples)
    if loaded.class_names is None:
        return found | {"is_number": True}
    if targets is not None and targets.ndim == 1:
        names, counts = np.unique(targets, return_counts=True)
        pairs = zip(names.tolist(), counts.tolist(), strict=True)
        return found | {"classes": {loaded.class_names[int(name)]: count for name, count in pairs}}
    return found | {"classes": dict.fromkeys(loaded.class_names, 0)}


def _inputs(samples: Any) -> dict[str, Any]:
    """Return the shape of a sample's inputs, and whether they are whole numbers; nothing where they are no array."""
    first = samples[0] if len(samples) else None
    inputs = first[0] if isinstance(first, tuple | list) and len(first) else None
    if not isinstance(inputs, torch.Tensor | np.ndarray):
        return {}
    return {"shape": list(inputs.shape), "are_whole": np.asarray(inputs).dtype.kind in "iu"}


def _of_frame(
    frame: pl.LazyFrame, text: str | None, target: str | None, *, is_table: bool, named: dict[str, Any] | None = None
) -> dict[str, Any]:
    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    step = max(rows // MAX_READ, 1)
    sample = frame.gather_every(step).head(MAX_READ).collect(engine="streaming")
    names = sample.columns
    if len(names) > MAX_COLUMNS:  # what is predicted mostly stands first or last
        names = names[: MAX_COLUMNS // 2] + names[-MAX_COLUMNS // 2 :]
    columns = [_column(sample[name]) for name in names]
    if not is_table:
        return {"rows": rows, "columns": columns, "text": None, "target": None}
    texts = sorted((one for one in columns if one["kind"] == "text"), key=lambda one: -one["words"])
    text = text or (texts[0]["name"] if texts else None)
    found = {"rows": rows, "columns": columns, "text": text, "target": target, "header": sample.columns}
    few = [one["name"] for one in columns if one["kind"] == "category" and one["different"] <= MAX_CLASSES]
    counted = [target] if target in sample.columns else few[:MAX_COUNTED]
    numbers = {one["name"] for one in columns if one["kind"] == "number"}
    found["told_by"] = _tells(sample, columns)
    found["one_each"] = _one_each(sample, columns)
    found["given_by"] = [one["name"] for one in columns if _says_split(sample[one["name"]], one)]
    found["times"] = times_of(frame, rows, columns, named or {})
    found["counts"] = {name: _classes(frame, name) for name in counted if name not in numbers}
    return found


def _column(values: pl.Series) -> dict[str, Any]:
    """Return a column's name, kind (number, category, text, other), different values and words a cell."""
    filled = values.drop_nulls()
    if values.dtype.is_nested():
        return {"name": values.name, "kind": "other", "different": 0, "words": 0.0}
    different = int(filled.n_unique())
    words, kind, numbers = 0.0, "other", _numbers(filled, different)
    is_fraction = numbers is not None and bool((numbers != numbers.floor()).any())
    if numbers is not None or values.dtype == pl.Boolean:
        kind = "number" if is_fraction or (numbers is not None and different > FEW_INTEGERS) else "category"
    elif values.dtype == pl.String:
        words = float(filled.str.split(" ").list.len().mean() or 0.0)  # type: ignore[arg-type]
        kind = "text" if words >= WORDS_OF_TEXT and different > FEW_INTEGERS else "category"
    found: dict[str, Any] = {"name": values.name, "kind": kind, "different": different, "words": round(words, 1)}
    if numbers is not None and values.dtype.is_numeric() and len(numbers):
        found["spread"] = _spread(numbers.to_numpy())
    found |= {"is_fraction": True} if is_fraction else {}
    found |= {"empty": len(values) - len(filled)} if len(filled) < len(values) else {}
    return found | {"of_numbers": True} if numbers is not None and kind == "category" else found


def _numbers(filled: pl.Series, different: int) -> pl.Series | None:
    """Return the finite numbers of a column; of texts ($1,200 is a number too) each once. None for words.

    A word among few numbers makes them classes, as the trainer reads them (data/sources/targets.py).
    """
    if filled.dtype.is_numeric():
        numbers = filled.cast(pl.Float64)
        return numbers.filter(numbers.is_finite())
    if filled.dtype != pl.String:
        return None
    column = infer_target(filled.name, filled.head(ROWS).to_list())
    if column.kind != "number":
        return None
    found: list[float] = []
    for cell in filled.unique(maintain_order=True).head(ROWS).str.strip_chars():
        try:
            found += number(cell, column.plan())
        except ValueError:
            if different <= FEW_INTEGERS and cell and cell.lower() not in MISSING:
                return None
    return pl.Series(found, dtype=pl.Float64)


def _spread(values: Any) -> dict[str, float]:
    """Return the spread of numbers, and what guessing one number for all rows is off by: of each measure, the best."""
    median = float(np.median(values))
    found = {
        "least": values.min(), "most": values.max(), "median": median, "deviation": values.std(),
        "mae": np.abs(values - median).mean(),
    }  # fmt: skip
    if (values > 0).all():
        shares = 1 / values
        order = np.argsort(values)
        best = values[order][np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2)]
        found["mape"] = (np.abs(values - best) * shares).mean()
    return {name: float(f"{value:.6g}") for name, value in found.items()}


def _tells(sample: pl.DataFrame, columns: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return for each column with few values those whose values leave it no choice: survived is told by alive."""
    few = [one for one in columns if one["kind"] == "category" and 2 <= one["different"] <= MAX_CLASSES]
    found: dict[str, list[str]] = {}
    for one, other in itertools.permutations(few, 2):
        if one["different"] <= other["different"] <= sample.height / MIN_OF_A_VALUE:
            pairs = sample.select(one["name"], other["name"]).drop_nulls().unique()
            if pairs.height == pairs[other["name"]].n_unique() >= 2:
                found.setdefault(one["name"], []).append(other["name"])
    return found


def _one_each(sample: pl.DataFrame, columns: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return for each column whose values number things, rows of which stand together, those with one value a thing."""
    found = {}
    few = [one["name"] for one in columns if one["kind"] == "category"]
    whole = [one["name"] for one in columns if one["kind"] in {"number", "category"} and not one.get("is_fraction")]
    for name in whole:
        cells, others = sample[name].drop_nulls(), [other for other in few if other != name]
        different = cells.n_unique()
        if MIN_THINGS <= different <= len(cells) / MIN_ROWS_OF_A_THING and len(cells.rle()) == different:
            of_each = sample.group_by(name).agg(pl.col(others).n_unique())
            found[name] = [other for other in others if of_each[other].max() == 1]
    return found


def _says_split(cells: pl.Series, column: dict[str, Any]) -> bool:
    """Whether a column says of each row in which split it is, and in which it is trained on."""
    if cells.dtype != pl.String or not 2 <= column["different"] <= len(MEANT) or cells.null_count():
        return False
    words = {str(word).strip().lower() for word in cells.unique()}
    return words <= MEANT.keys() and {MEANT[word] for word in words} >= {0, 2}


def _classes(frame: pl.LazyFrame, column: str) -> dict[str, Any]:
    """Return the rows of each class, the most frequent first."""
    counted = (
        frame.select(pl.col(column).cast(pl.String).alias("class"))
        .drop_nulls()
        .group_by("class")
        .len()
        .sort("len", "class", descending=[True, False])
        .collect(engine="streaming")
    )
    pairs = list(zip(counted["class"].to_list(), counted["len"].to_list(), strict=True))
    return {"classes": dict(pairs[:MAX_CLASSES]), "class_count": len(pairs), "smallest": pairs[-1][1] if pairs else 0}


def _texts(frame: pl.LazyFrame, column: str, rows: int) -> list[str]:
    """Return texts of a column, evenly spread."""
    texts = frame.select(pl.col(column).cast(pl.String)).gather_every(max(rows // MAX_TOKENIZED, 1))
    return [text or "" for text in texts.head(MAX_TOKENIZED).collect(engine="streaming").to_series().to_list()]


def _tokens(cells: list[str], root: Path, tokenizer: str | None) -> dict[str, Any]:
    """Return how many tokens the texts have: counted by the tokenizer where there is one, else from characters."""
    if tokenizer in {None, "bytes", "characters"}:
        a_token = CHARACTERS_A_TOKEN if tokenizer is None else 1.0
        lengths = np.array([len(text) / a_token + 2 for text in cells])
        how = f"characters / {a_token:g}"
    else:
        from transformers import AutoTokenizer

        folder = confine_folder(str(tokenizer), root, key="data.args.tokenizer")
        library = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        lengths = np.array([len(ids) for ids in library(cells, truncation=False, verbose=False)["input_ids"]])
        how = f"the tokenizer in {tokenizer}"
    shares = {f"p{share}": int(np.ceil(np.percentile(lengths, share))) for share in (50, 95, 99)}
    return {**shares, "longest": int(lengths.max()), "counted_by": how, "texts": len(cells)}


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.exit(code)
