"""Answers of a final model's folder to raw inputs: `predict.py`, and `schema.json` with all that it has to know."""

from __future__ import annotations

import json
import math
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.section import episode_entries
from trainwright.trainer.base.text import one_line
from trainwright.trainer.base.time_units import DAY
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data import rows as row_pieces
from trainwright.trainer.data.images.samples import ImageSamples
from trainwright.trainer.data.preprocessing import Table as TablePreprocessing
from trainwright.trainer.data.sections import targets_of
from trainwright.trainer.data.table.schema import Column, TableSchema
from trainwright.trainer.data.table.transform import EPOCH
from trainwright.trainer.data.tensors import TensorSamples, known_targets
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.exporters import ONNX, TORCH_EXPORT
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.observations import ship_episodes
from trainwright.trainer.jobs.export.outputs import are_shares
from trainwright.trainer.jobs.export.own_functions import (
    held_out,
    imported_packages,
    kind_of_raw,
    raw_inputs_of,
    ship_function,
)
from trainwright.trainer.jobs.export.parity import part, wanted_of
from trainwright.trainer.jobs.export.program import FILES, lengths
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.jobs.export.texts import TOKENIZER, tokenization
from trainwright.trainer.jobs.export.trainer_texts import trainer_classes, trainer_texts
from trainwright.trainer.metrics.built_in import OF_GROUPS
from trainwright.trainer.prediction.assembly import ANSWERS, INPUTS, PREDICT, assembled, use_of

SCHEMA = "schema.json"
LOOKED_AT = 8
"""Rows whose outputs say what an answer is."""
SHORT = 16
"""Numbers of a sample up to which it is written out as JSON."""
WRITTEN = {
    "year-month-day": "%Y-%m-%d", "day.month.year": "%d.%m.%Y", "day/month/year": "%d/%m/%Y", "year-day": "%Y-%j",
    "month/day/year": "%m/%d/%Y", "day month year": "%d %b %Y", "month day, year": "%b %d, %Y", "year-week": "%G-W%V",
    "yearmonthday": "%Y%m%d",
}  # fmt: skip
"""How a date of each form is written."""
OF_KIND = {
    "series": "forecast", "prompt": "written", "conversation": "written", "source": "rewritten", "words": "tags",
    "question": "span", "choices": "choice", "masked": "filled",
}  # fmt: skip
"""Kind of answer to inputs that have one alone."""
Schema = dict[str, Any]


def ship_predict(session: Session, served: Served, folder: Path) -> Schema | None:
    """Write predict.py and schema.json beside the program; return the schema, None where there is no program."""
    programs = [FILES[form] for form in (ONNX, TORCH_EXPORT) if (folder / FILES[form]).is_file()]
    if not programs:
        return None
    first = next(served.rows.batches())
    own = own_functions(session, folder)
    schema = own.get("prepare") or _inputs(session, served, first, folder / programs[0])
    (output, *_) = wanted_of(served.serving, part(first, 0, LOOKED_AT))
    schema["answer"] = answer_of(session, schema, output) | own.get("present", {})
    schema["program"] = {"file": programs[0], "inputs": list(first)}
    kinds = INPUTS[schema["kind"]], ANSWERS[schema["answer"]["kind"]]
    needs = ["numpy", "onnxruntime" if programs[0].endswith(".onnx") else "torch", *(one.needs for one in kinds)]
    needs += ["tokenizers"] if (folder / TOKENIZER).is_file() else []
    needs += imported_packages(folder)  # of the functions of the user's that go with it
    needs += ["jinja2"] if "template" in schema.get("text", {}) else []
    schema["needs"] = " ".join(dict.fromkeys(filter(None, needs)))
    played = ship_episodes(session.config, session.context.code_root, folder, programs[0])
    if played is not None:
        schema["episodes"] = played | {"use": _python(played["use"])}
    schema |= {"use": use_lines(schema), "widget": widget_of(schema)}
    (folder / SCHEMA).write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / PREDICT).write_text(predict_text(schema), encoding="utf-8")
    return schema


def own_functions(session: Session, folder: Path) -> dict[str, Schema]:
    """Ship the user's functions that turn raw inputs into samples, and outputs into answers; return what calls them."""
    data, root, found = session.config.data, session.context.code_root, dict[str, Schema]()
    if data is not None and data.prepare is not None:
        entry = ship_function(data.prepare, "data.prepare", root, folder)
        takes, example = kind_of_raw(str(next(iter(raw_inputs_of(held_out(session)) or ()), "")))
        found["prepare"] = {"kind": "own", "own": {"prepare": entry, "takes": takes, "example": example}}
    if data is not None and data.present is not None:
        found["present"] = {"kind": "own", "present": ship_function(data.present, "data.present", root, folder)}
    return found


def predict_text(schema: Schema) -> str:
    """Return the text of predict.py for a schema."""
    kind, answer, needs = schema["kind"], schema["answer"]["kind"], schema["needs"]
    use = f"python {PREDICT} {shlex.quote(schema['own'].get('example', 'INPUT'))}" if kind == "own" else use_of(kind)
    target = one_line(str(schema["answer"]["target"])).replace('"', "'").replace("\\", "/")
    about = f"Predictions of {target} from raw inputs, by this folder alone. Needs Python 3.11 and {needs}."
    return assembled(kind, answer, f"{about}\n\n    {use}\n    {use} --json\n")


def use_lines(schema: Schema) -> list[str]:
    """Return lines that answer a made-up input as they stand, in the folder: middle values, first choices, zeros.

    The last one does it from Python.
    """
    before, given = _made_up(schema)
    words = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    command = f"python {PREDICT} {'' if before else '--json '}{shlex.quote(words)}"
    return [*before, command, _python(f"from predict import predict; print(predict({_literal(given)}))")]


def widget_of(schema: Schema) -> list[Schema]:
    """Return the made-up input as the Hub's widgets take examples; empty where they take none of the kind."""
    kind, (_, given) = schema["kind"], _made_up(schema)
    if kind == "table" and isinstance(given, dict):
        return [{"structuredData": {name: [value] for name, value in given.items()}}]
    if kind == "question":
        return [dict(zip(("text", "context"), given.values(), strict=True))]
    texts = {"text", "words", "masked", "source", "conversation", "prompt"}
    return [{"text": next(iter(given.values())) if isinstance(given, dict) else given}] if kind in texts else []


def _literal(given: Any) -> str:
    """Return code of a value with double quotes, which a shell's single ones hold as they are."""
    if isinstance(given, dict):
        return "{" + ", ".join(f"{_literal(name)}: {_literal(value)}" for name, value in given.items()) + "}"
    if isinstance(given, list):
        return f"[{', '.join(map(_literal, given))}]"
    return json.dumps(given, ensure_ascii=False) if isinstance(given, str) else repr(given)


def _made_up(schema: Schema) -> tuple[list[str], Any]:
    """Return the lines that make a file, if one is needed, and what is given."""
    kind = schema["kind"]
    if kind in {"table", "series"}:
        row = {column["name"]: _example(column) for column in schema["columns"]}
        if (group := schema.get("answer", {}).get("group")) is not None:
            return [], [row | {group: "1"}, row | {group: "1"}]
        return ([], row) if kind == "table" else ([_python(_made_up_series(row, schema["series"]))], "rows.json")
    if kind == "picture":
        height, width = schema["pictures"]["size"]
        made = f'from PIL import Image; Image.new("RGB", ({width}, {height}), "grey").save("grey.png")'
        return [_python(made)], "grey.png"
    if kind == "array":
        return _made_up_arrays(schema["arrays"])
    if kind == "own":
        return [], schema["own"].get("example", "INPUT")
    return [], _row(schema) or INPUTS[kind].example.strip('"')


def _made_up_arrays(arrays: dict[str, dict[str, Any]]) -> tuple[list[str], Any]:
    """Return arrays of zeros as JSON, of more numbers as a file with the line that makes it."""
    sizes = {name: (tuple(size or 2 for size in one["shape"]), one["dtype"]) for name, one in arrays.items()}
    if sum(math.prod(shape) for shape, _ in sizes.values()) <= SHORT:
        zeros = {name: torch.zeros(shape, dtype=getattr(torch, of)) for name, (shape, of) in sizes.items()}
        return [], {name: value.tolist() for name, value in zeros.items()}
    code = ", ".join(f'{_literal(name)}: numpy.zeros({(1, *shape)}, "{of}")' for name, (shape, of) in sizes.items())
    return [_python(f'import numpy; numpy.savez("samples.npz", **{{{code}}})')], "samples.npz"


def _made_up_series(row: Schema, series: Schema) -> str:
    """Return code that writes rows.json: a row as often as the model sees rows, a step apart."""
    every, dates = series["every"], series["dates"]
    if every["unit"] == "number":
        time, imports = f"n * {every['length']:g}", "json"
    else:
        is_day = every["unit"] == "month" or every["length"] % DAY == 0 or (dates is not None and dates["width"] == 1)
        form = (WRITTEN[dates["format"]] if dates else "%Y-%m-%d") + ("" if is_day else " %H:%M:%S")
        months = f"datetime.datetime(2020 + n * {every['length']:g} // 12, n * {every['length']:g} % 12 + 1, 1)"
        later = f"datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=n * {every['length']!r})"
        time, imports = f"format({months if every['unit'] == 'month' else later}, {_literal(form)})", "datetime, json"
    rows = f"[{_literal(row)} | {{{_literal(series['time'])}: {time}}} for n in range({series['window']})]"
    return f'import {imports}; json.dump({rows}, open("rows.json", "w"))'


def _row(schema: Schema) -> Schema | None:
    """Return a made-up row of texts with fields of their own names; None where a text by itself is one."""
    text, kind = schema.get("text", {}), schema["kind"]
    if kind == "masked":
        return {text["column"]: f"some {text['mark']}"}
    if kind == "question":
        return {text["question"]: "Which words?", text["context"]: "These are some words."}
    if kind != "choices":
        return None
    words = [f"some words {number}" for number in range(text["count"])]
    columns = text["choices"]
    return {text["question"]: "Which?"} | (
        {columns: words} if isinstance(columns, str) else dict(zip(columns, words, strict=True))
    )


def _python(code: str) -> str:
    return f"python -c {shlex.quote(code)}"


def _example(column: dict[str, Any]) -> Any:
    """Return a value of a column: the median number, the middle of its dates, the first category."""
    low, high = column.get("range") or (0.0, 0.0)
    if column["kind"] == "date":
        day = date.fromordinal(int((low + high) / 2) + EPOCH).strftime(WRITTEN[column["format"]])
        return f"{day} 12:00" if column["width"] > 1 else day
    if column["kind"] == "category":
        return next(iter(column["values"]), "")
    return {"number": column.get("median", 0.0), "boolean": True}.get(column["kind"], "some words")


def _inputs(session: Session, served: Served, first: Inputs, program: Path) -> Schema:
    """Return what the user gives, and how it becomes the program's inputs."""
    splits = session.work.splits
    train = splits.samples["train"]
    if splits.schema is not None:
        found = splits.schema.shipped(known_categories(splits.preprocessing))
        _add_ranges(found["columns"], train)
        if (series := splits.series) is None:
            return {"kind": "table", **found}
        data = session.config.data
        assert data is not None, "a series is of a table"  # noqa: S101
        options = {
            "window": series.window, "horizon": series.horizon, "time": data.split.time,
            "group": data.args["series"].get("group"), "every": {**series.every._asdict(), "words": str(series.every)},
            "dates": series.dates,
        }  # fmt: skip
        return {"kind": "series", **found, "series": options}
    if isinstance(train, ImageSamples):
        pictures = train.pictures
        picture: Schema = {"size": list(pictures.size), "channels": pictures.channels, "dtype": "uint8"}
        return {"kind": "picture", "pictures": picture}
    text = tokenization(session, program.parent) or trainer_texts(session, program.parent)
    if text is not None and (length := _length(text["text"].pop("length", 0), program)) is not None:
        if text["kind"] == "choices":
            text["text"]["count"] = first["input_ids"].shape[1]
        if length:
            text["text"] |= {"length": length, "max_length": min(length, text["text"]["max_length"])}
        return text
    if text is None and splits.feature_names and type(train) is TensorSamples and train.base[0].dim() == 2:
        columns = [Column(name, "number", "as published") for name in splits.feature_names]
        found = TableSchema(columns, []).shipped({})
        _add_ranges(found["columns"], train)
        return {"kind": "table", **found}
    return {"kind": "array", "arrays": _arrays(served, first, train, session.config)}


def known_categories(preprocessing: Any) -> dict[str, set[int]]:
    """Return the codes of the categories that the train split has, by column."""
    if not isinstance(preprocessing, TablePreprocessing):
        return {}
    return {one["name"]: set(one["known"]) for one in preprocessing.columns if one["kind"] == "category"}


def _add_ranges(columns: list[dict[str, Any]], train: Any) -> None:
    """Note the least and the largest number of each column of numbers or dates in the train rows, and medians."""
    if not isinstance(train, TensorSamples):
        return
    low, high = _range(train)
    _, (first, *_) = next(iter(row_pieces.pieces(TensorSamples(train.base[0], rows=train.rows))))
    medians = first.reshape(-1, len(low)).double().nanmedian(dim=0).values
    at = 0
    for column in columns:
        if column["kind"] in {"number", "date"} and bool(torch.isfinite(low[at] + high[at])):
            column["range"] = [low[at].item(), high[at].item()]
        if column["kind"] == "number" and bool(torch.isfinite(medians[at])):
            column["median"] = float(f"{medians[at].item():.4g}")
        at += column["width"]


def _range(train: TensorSamples) -> tuple[Tensor, Tensor]:
    """Return the least and the largest value of each input of the train samples as the source has them, (inputs,)."""
    width = train.base[0].shape[-1]
    low, high = torch.full((width,), torch.inf, dtype=torch.float64), torch.full((width,), -torch.inf).double()
    for _, (piece, *_) in row_pieces.pieces(TensorSamples(train.base[0], rows=train.rows)):
        values = piece.reshape(-1, width).double()
        low = torch.minimum(low, torch.nan_to_num(values, nan=torch.inf).amin(0))
        high = torch.maximum(high, torch.nan_to_num(values, nan=-torch.inf).amax(0))
    return low, high


def _length(common: int, program: Path) -> int | None:
    """Return the tokens that each text must have: 0 where the inputs' last size is no number, None where unknown.

    Args:
        common: tokens of each row; 0: they differ.
    """
    if program.suffix != ".onnx":
        return 0
    import onnx

    given = onnx.load(str(program), load_external_data=False).graph.input
    shapes = [one.type.tensor_type.shape.dim for one in given]
    is_free = all(len(shape) > 1 and not shape[-1].HasField("dim_value") for shape in shapes)
    return 0 if is_free else common or None


def _arrays(served: Served, first: Inputs, train: Any, config: TrainingConfig) -> dict[str, Any]:
    free = lengths(served.rows, first)
    found: dict[str, dict[str, Any]] = {}
    for name, value in first.items():
        shape: list[int | None] = [
            None if place in free.get(name, ()) else size for place, size in enumerate(value.shape)
        ][1:]
        found[name] = {"shape": shape, "dtype": str(value.dtype).removeprefix("torch.")}
    if episode_entries(config.metrics):  # of whose rows an ordinary input is often beyond
        return found
    is_of_floats = type(train) is TensorSamples and train.base[0].is_floating_point() and train.base[0].dim() > 1
    if len(found) == 1 and is_of_floats:
        low, high = _range(train)
        next(iter(found.values()))["range"] = [low.amin().item(), high.amax().item()]
    return found


def answer_of(session: Session, schema: Schema, output: Tensor) -> Schema:
    """Return what the outputs, (rows, ...), of some rows mean."""
    splits, data = session.work.splits, session.config.data
    of_trainer, its_task = trainer_classes(session)
    names, kind, train = splits.class_names or of_trainer, schema["kind"], splits.samples["train"]
    given = schema.get("targets") or targets_of(schema.get("text") or (data.args if data else {}))
    found: Schema = {"target": ", ".join(given) or ("class" if names else "value")}
    if kind in OF_KIND:
        return found | {"kind": OF_KIND[kind]} | ({"classes": names} if kind == "words" else {})
    if kind == "table" and (group := _ranked_within(session.config)) is not None:
        return found | {"kind": "ranks", "group": group}
    if isinstance(train, ImageSamples) and (coding := train.pictures.coding) is not None:
        codes = {place: code for code, place in sorted(coding.classes.items(), reverse=True)}
        values = [codes[place] for place in range(len(coding.names))]
        return found | {"kind": "mask", "classes": coding.names, "codes": values, "of_colors": coding.of_colors}
    width = output.shape[-1] if output.dim() == 2 else 1 if output.dim() == 1 else None
    loss, targets = session.work.loss, known_targets(train)
    task = loss.task if loss is not None else its_task
    if width == len(names) > 1 and (task == "binary" or (targets is not None and targets.dim() > 1)):
        return found | {"kind": "labels", "classes": names}
    if task != "regression" and len(names) > 1 and width in {len(names), 1 if len(names) == 2 else -1}:
        is_shares = loss is not None and loss.user_defined and width == len(names) and are_shares(output.double())
        return found | {"kind": "classes", "classes": names, "are_probabilities": is_shares}
    columns = splits.target_names if width == len(splits.target_names or []) else None
    return found | {"kind": "numbers", "names": columns, "are_targets": task == "regression"}


def is_of_outputs(answer: Schema) -> bool:
    """Return whether an answer is the model's outputs as they are, which nothing says the meaning of."""
    return answer.get("kind") == "numbers" and not answer["are_targets"]


def _ranked_within(config: TrainingConfig) -> str | None:
    """Return the column within whose groups rows are ranked; None where no metric is of their order."""
    metrics = {config.selection.metric, *(one for one in config.metrics if isinstance(one, str))}
    return config.data.split.key if config.data is not None and not metrics.isdisjoint(OF_GROUPS) else None
