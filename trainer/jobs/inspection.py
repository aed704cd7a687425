"""Inspection of data, model and machine before a plan: `python -P -m trainwright.trainer.jobs.inspection FOLDER`.

Reads `order.json` (data and model as a configuration names them, code root), leaves `report.json`. No user code runs,
no weights are read and nothing is fetched: a model is counted from its configuration alone. It is no evidence.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.run import write_atomically

if TYPE_CHECKING:
    import polars as pl

MOST_COLUMNS = 60
MOST_READ = 20_000
"""Rows, evenly spread, of which columns are described and texts are measured in characters."""
MOST_TOKENIZED = 1000
MOST_CLASSES = 50
MOST_COUNTED = 8
"""Columns whose classes are counted while it is not known which is predicted."""
FEW_INTEGERS = 20
"""Different whole numbers up to which a column is taken for classes (as data/sources/targets.py has it)."""
CHARACTERS_A_TOKEN = 4.0
"""English text under the common sub-word tokenizers; where the model's own is not here."""
WORDS_OF_TEXT = 3.0
OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert")
"""Models whose positions begin behind the padding's number, so that two fewer tokens fit."""


def main(folder: Path) -> int:
    """Inspect as ordered. Returns the process's exit code."""
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    try:
        answer = _inspected(order)
    except TrainwrightError as error:
        answer = {"failure": error.as_dict()}
    except Exception as error:  # noqa: BLE001 - whatever the files hold, the agent is told
        traceback.print_exc()
        what = f"{type(error).__name__}: {str(error)[:300]}"
        answer = {"failure": {"message": what, "remedy": "Correct the file or folder, and plan again."}}
    write_atomically(folder / "report.json", json.dumps(answer).encode())
    return 0


def _inspected(order: dict[str, Any]) -> dict[str, Any]:
    root = Path(order["code_root"])
    found: dict[str, Any] = {"machine": _machine()}
    if order.get("model") is not None:
        found["model"] = _model(order["model"], root, causal=bool(order.get("causal")))
    if order.get("data") is not None:
        ours = "bytes" if (order.get("model") or {}).get("use", "transformers") != "transformers" else None
        found["data"] = _data(order["data"], root, (found.get("model") or {}).get("tokenizer") or ours)
    return found


def _machine() -> dict[str, Any]:
    import os

    import psutil
    import torch

    from trainwright.trainer.estimation.processor import this_machine

    gpus = []
    for number in range(torch.cuda.device_count()):
        seen = torch.cuda.get_device_properties(number)
        gpus.append({"name": seen.name, "memory_bytes": seen.total_memory, "capability": [seen.major, seen.minor]})
    found = {"cores": os.cpu_count(), "ram_bytes": psutil.virtual_memory().total, "gpus": gpus}
    return found if gpus else {**found, "processor": this_machine().as_dict()}


def _model(model: dict[str, Any], root: Path, *, causal: bool) -> dict[str, Any] | None:
    """Return sizes of a model of the Transformers library; None for others, which are counted with their data."""
    args = model.get("args") or {}
    if model["use"] != "transformers":
        return None
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    folder = confine_folder(args["path"], root, key="model.args.path") if args.get("path") else None
    try:
        if args.get("config"):
            values = dict(args["config"])
            config = AutoConfig.for_model(values.pop("model_type"), **values)
        else:
            config = AutoConfig.from_pretrained(
                str(folder) if folder is not None else args["hub"], local_files_only=True, trust_remote_code=False
            )
    except (OSError, ValueError, KeyError) as error:
        if folder is None and args.get("hub"):
            return {"unknown": str(error)[:200]}  # the plan goes by the table of known models
        raise
    kind = AutoModelForCausalLM if causal else AutoModelForSequenceClassification
    most = getattr(config, "max_position_embeddings", None)
    return {
        "parameters": _parameters(kind, config),
        "model_type": config.model_type,
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "most_tokens": most - 2 if most and config.model_type in OFFSET_POSITIONS else most,
        "tokenizer": args["path"] if folder is not None and _has_tokenizer(folder) else None,
    }


def _parameters(kind: Any, config: Any) -> int:
    """Return the entries of all weights, shared ones once, without allocating any."""
    from accelerate import init_empty_weights

    with init_empty_weights():
        model = kind.from_config(config)
    model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def _has_tokenizer(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"))


def _data(data: dict[str, Any], root: Path, tokenizer: str | None) -> dict[str, Any]:
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources import load_source, scan_source

    use, args = data["use"], dict(data.get("args") or {})
    if data.get("columns_wanted"):  # text and target are not both known: the table as it is
        args = {"path": args["path"], "text": args.get("text") or "?"} if use in TABLES else args
    frame = scan_source(use, args, root)
    if frame is None:
        return _of_samples(load_source(use, args, root, SplitSection()))
    named = data.get("args") or {}
    found = _of_frame(frame, named.get("text"), named.get("target"), is_table=use in TABLES)
    if use == "images" and not named.get("target"):
        found |= _classes(frame, "label")
    column = "text" if use in {"text", "chat"} else found["text"]
    if column is not None:
        found["tokens"] = _tokens(frame, column, root, named.get("tokenizer") or tokenizer)
    return found


TABLES = ("csv", "jsonl", "parquet", "orc", "arrow")


def _of_samples(loaded: Any) -> dict[str, Any]:
    """Return rows and classes of a source without a table of rows."""
    import numpy as np

    from trainwright.trainer.data.splits import Splits

    if isinstance(loaded, Splits):
        return {"rows": sum(len(samples) for samples in loaded.samples.values()), "columns": []}
    targets = np.asarray(loaded.samples.targets()) if hasattr(loaded.samples, "targets") else None
    found: dict[str, Any] = {"rows": len(loaded.samples), "columns": []}
    if loaded.class_names is None:
        return found | {"is_number": True}
    if targets is not None and targets.ndim == 1:
        names, counts = np.unique(targets, return_counts=True)
        pairs = zip(names.tolist(), counts.tolist(), strict=True)
        return found | {"classes": {loaded.class_names[int(name)]: count for name, count in pairs}}
    return found | {"classes": dict.fromkeys(loaded.class_names, 0)}


def _of_frame(frame: pl.LazyFrame, text: str | None, target: str | None, *, is_table: bool) -> dict[str, Any]:
    import polars as pl

    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    step = max(rows // MOST_READ, 1)
    sample = frame.gather_every(step).head(MOST_READ).collect(engine="streaming")
    columns = [_column(sample[name]) for name in sample.columns[:MOST_COLUMNS]]
    if not is_table:
        return {"rows": rows, "columns": columns, "text": None, "target": None}
    texts = sorted((one for one in columns if one["kind"] == "text"), key=lambda one: -one["words"])
    text = text or (texts[0]["name"] if texts else None)
    found = {"rows": rows, "columns": columns, "text": text, "target": target}
    few = [one["name"] for one in columns if one["kind"] == "category" and one["different"] <= MOST_CLASSES]
    counted = [target] if target in sample.columns else few[:MOST_COUNTED]
    numbers = {one["name"] for one in columns if one["kind"] == "number"}
    found["counts"] = {name: _classes(frame, name) for name in counted if name not in numbers}
    return found


def _column(values: pl.Series) -> dict[str, Any]:
    """Return a column's name, kind (number, category, text, other), different values and words a cell."""
    import polars as pl

    filled = values.drop_nulls()
    try:
        different = int(filled.n_unique())
    except pl.exceptions.InvalidOperationError:  # nested cells
        return {"name": values.name, "kind": "other", "different": 0, "words": 0.0}
    words, kind = 0.0, "other"
    if values.dtype.is_numeric() or values.dtype == pl.Boolean:
        is_classes = not values.dtype.is_float() and different <= FEW_INTEGERS
        kind = "category" if is_classes or values.dtype == pl.Boolean else "number"
    elif values.dtype == pl.String:
        words = float(filled.str.split(" ").list.len().mean() or 0.0)  # type: ignore[arg-type]
        kind = "text" if words >= WORDS_OF_TEXT and different > FEW_INTEGERS else "category"
    return {"name": values.name, "kind": kind, "different": different, "words": round(words, 1)}


def _classes(frame: pl.LazyFrame, column: str) -> dict[str, Any]:
    """Return the rows of each class, the most frequent first."""
    import polars as pl

    counted = (
        frame.select(pl.col(column).cast(pl.String).alias("class"))
        .drop_nulls()
        .group_by("class")
        .len()
        .sort("len", "class", descending=[True, False])
        .collect(engine="streaming")
    )
    pairs = list(zip(counted["class"].to_list(), counted["len"].to_list(), strict=True))
    return {"classes": dict(pairs[:MOST_CLASSES]), "class_count": len(pairs), "smallest": pairs[-1][1] if pairs else 0}


def _tokens(frame: pl.LazyFrame, column: str, root: Path, tokenizer: str | None) -> dict[str, Any]:
    """Return how many tokens the texts have: counted by the tokenizer where there is one, else from characters."""
    import numpy as np
    import polars as pl

    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    texts = frame.select(pl.col(column).cast(pl.String)).gather_every(max(rows // MOST_TOKENIZED, 1))
    cells = [text or "" for text in texts.head(MOST_TOKENIZED).collect(engine="streaming").to_series().to_list()]
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
