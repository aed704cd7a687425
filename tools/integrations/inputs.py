"""Inputs of a released model: a table's columns, a series' last rows, a picture, text, prompt, or numbers.

Sentences in words, questions, texts with hidden words and what the user's own `prepare` takes are read by predict.py.

What training did with them must lie in `final_model/` (schema.json, predict.py with code/, tokenizer.json, or inside
the program); where it does not, nothing is generated.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from trainwright.tools.integrations.final_model import FinalModel
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.prediction.assembly import INPUTS as READERS

LEARNED = {"bpe", "library"}
"""Tokenizers that need a file."""
MAX_NEW_TOKENS = 512
USES = {"csv", "jsonl", "parquet", "arrow", "orc", "excel", "sql", "text"}
"""Sources of texts whose preparation is shipped."""


class Field(BaseModel):
    """One column of a table."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: Literal["number", "boolean", "category", "date", "text"]
    choices: list[str] = []
    """Values of a category that training met, in the order of their codes."""
    format: str | None = None
    """Of a date; with a time of day where `has_time`."""
    has_time: bool = False
    may_be_empty: bool = False
    median: float | None = None
    """Of a number in the train split, for examples."""


class Inputs(BaseModel):
    """What one row is."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["table", "series", "picture", "text", "prompt", "own", "array"]
    fields: list[Field] = []
    """Of a table, and of each row of a series."""
    window: int | None = None
    """Rows that are seen of a series."""
    time: str | None = None
    """Its column of times."""
    group: str | None = None
    """Its column of what is measured."""
    every: dict[str, Any] | None = None
    """Time between two of its rows: length and unit, and in words."""
    size: list[int] = []
    """Height and width of a picture, in pixels."""
    channels: int = 3
    most_tokens: int | None = None
    """To which a text is cut; of a prompt and what is written after it, how many the model sees."""
    most_new_tokens: int | None = None
    """Tokens that may be asked for after a prompt."""
    reader: str = ""
    """Class of predict.py that reads a raw row."""
    takes: str = ""
    """What it reads, in words."""
    example: str | dict[str, Any] = ""
    """One of that kind, made up; the name that a file gets."""
    plain: str | None = None
    """Field of a row that a text alone is, where one is."""
    is_file: bool = False
    """Whether it is a file rather than a text."""
    shapes: dict[str, list[int]] = {}
    """Of what `prepare` makes, by the name of the program's input."""
    shape: list[int] = []
    """Of an array."""
    statistics: dict[str, dict[str, float]] = {}
    """Mean and scale of the numbers in the train split, by name: what drift is counted against."""


def inputs_of(model: FinalModel, *, as_samples: bool) -> Inputs:
    """Return what a row of the model is. Raises ConfigurationError where its preparation is not in the folder."""
    resolved, schema = model.resolved, model.schema
    if resolved.get("preprocessing") is not None and not resolved.get("onnx_includes_preprocessing"):
        raise _missing(model, "its preprocessing is not inside model.onnx")
    if not as_samples and "prepare" in model.own:
        return _own(model)
    if ".py:" in str(model.data.get("use")) and not as_samples:
        raise ConfigurationError(
            f"The rows of {model.project} come from your code ({model.data['use']}), and what it does to them is not "
            "in final_model/: no `data.prepare` was exported with it.",
            remedy=f"Name the function that makes a sample of a raw input, configure(project={model.project!r}, "
            "begin_release=True, changes={'data.prepare': 'file.py:function'}), then export_model and the last gate "
            "again; or add --as-samples: then rows are given as your code gave them to the model.",
        )
    if resolved.get("text") is not None:
        return _text(model)
    if "predict.py" not in model.digests:
        raise _missing(model, "it has no predict.py")
    if "pictures" in schema:
        pictures = schema["pictures"]
        return Inputs(kind="picture", size=pictures["size"], channels=pictures["channels"], statistics=_bright(model))
    if schema.get("kind") == "table":
        return Inputs(kind="table", **_columns(model))
    if schema.get("kind") == "series":
        options = schema["series"]
        named = {name: options[name] for name in ("window", "time", "group", "every")}
        return Inputs(kind="series", **_columns(model), **named)
    return _array(model)


def _own(model: FinalModel) -> Inputs:
    """Return what the user's own `prepare` takes, and what it makes."""
    if "predict.py" not in model.digests:
        raise _missing(model, "it has no predict.py")
    own, names = model.schema["own"], model.schema["program"]["inputs"]
    takes = own.get("takes", "a text")
    return Inputs(
        kind="own",
        reader=READERS["own"].kind,
        takes=takes,
        example=own.get("example", "some words"),
        is_file=takes.startswith("a file"),
        shapes=dict(zip(names, model.resolved["input_shapes"], strict=True)),
    )


def _columns(model: FinalModel) -> dict[str, Any]:
    """Return the fields of a row and what is known of its numbers."""
    columns = model.schema["columns"]
    fields = [
        Field(
            name=column["name"],
            kind=column["kind"],
            choices=sorted(column["values"], key=column["values"].__getitem__),
            format=column["format"],
            has_time=column["kind"] == "date" and column["width"] > 1,
            may_be_empty=bool(model.schema["takes_missing"]),
            median=column.get("median"),
        )
        for column in columns
    ]
    fitted = model.resolved.get("preprocessing") or {}
    known: dict[str, dict[str, float]] = {}
    if fitted.get("kind") == "table":
        known = {one["name"]: _measured(one) for one in fitted["columns"] if "mean" in one}
    elif all(column["width"] == 1 for column in columns) and len(fitted.get("mean") or []) == len(columns):
        pairs = zip(columns, fitted["mean"], fitted["scale"], strict=True)
        known = {column["name"]: {"mean": mean, "scale": scale} for column, mean, scale in pairs}
    return {"fields": fields, "statistics": known}


def _measured(column: dict[str, Any]) -> dict[str, float]:
    return {"mean": float(column["mean"]), "scale": float(column["scale"])}


def _text(model: FinalModel) -> Inputs:
    described, text, kind = model.resolved["text"], model.schema.get("text"), model.schema.get("kind")
    if kind not in READ and model.data.get("use") not in USES:
        raise ConfigurationError(
            f"The model of {model.project} is of another kind ({model.data.get('use')}) than those that the templates "
            "answer for: a class or a number of a text, tags, an answer in a context, a choice, hidden words, what "
            "comes after a prompt.",
            remedy="Serve it with the code of the model card (README.md, 'Use').",
        )
    if text is None or "predict.py" not in model.digests:
        raise _missing(model, "it has no predict.py and schema.json for its texts")
    name = text["tokenizer"]["name"]
    if name in LEARNED and "tokenizer.json" not in model.digests:
        raise _missing(model, f"its tokenizer ({name}) is not there: no tokenizer.json")
    if kind in READ:
        return Inputs(kind="own", reader=READERS[kind].kind, plain=text.get("column"), **READ[kind](text))
    if described.get("block_size") is not None:
        return Inputs(kind="prompt", most_tokens=text["block_size"], most_new_tokens=MAX_NEW_TOKENS)
    longest = {"tokens": {"mean": float(described["longest"]), "scale": 0.0}}
    return Inputs(kind="text", most_tokens=text["max_length"], statistics=longest)


def _words(_: dict[str, Any]) -> dict[str, Any]:
    return {"takes": "a sentence, or a list of its words", "example": "some words"}


def _question(text: dict[str, Any]) -> dict[str, Any]:
    question, context = text["question"], text["context"]
    return {
        "takes": f"an object of {question} and {context}",
        "example": {question: "who sleeps?", context: "a cat sleeps"},
    }


def _choices(text: dict[str, Any]) -> dict[str, Any]:
    question, columns = text["question"], text["choices"]
    names = columns if isinstance(columns, list) else [columns]
    texts = [f"choice {number}" for number in range(1, text["count"] + 1)]
    choices = dict(zip(names, texts, strict=True)) if isinstance(columns, list) else {columns: texts}
    return {"takes": f"an object of {question}, {', '.join(names)}", "example": {question: "which one?", **choices}}


def _masked(text: dict[str, Any]) -> dict[str, Any]:
    return {"takes": f"a text with {text['mark']} for each hidden token", "example": f"some {text['mark']} words"}


READ = {"words": _words, "question": _question, "choices": _choices, "masked": _masked}
"""Kinds of text that predict.py reads from a raw row, and what their rows are."""


def _bright(model: FinalModel) -> dict[str, dict[str, float]]:
    """Return mean and deviation of the pixels of 0 to 1, over all channels, where training measured them."""
    fitted = model.resolved.get("preprocessing") or {}
    found = {name: _flat(fitted.get(name)) for name in ("mean", "scale")}
    if not found["mean"] or not found["scale"]:
        return {}
    return {"brightness": {name: sum(values) / len(values) for name, values in found.items()}}


def _flat(values: Any) -> list[float]:
    if isinstance(values, list):
        return [number for value in values for number in _flat(value)]
    return [] if values is None else [float(values)]


def _array(model: FinalModel) -> Inputs:
    shapes = model.resolved.get("input_shapes") or []
    if model.resolved.get("feature_names") or model.data.get("use") == "images":
        raise _missing(model, "it has no schema.json for its raw rows")
    if len(shapes) != 1:
        raise ConfigurationError(
            f"The model of {model.project} takes {len(shapes)} inputs; the templates give it one array a row.",
            remedy="Serve it with the code of the model card (README.md, 'Use').",
        )
    return Inputs(kind="array", shape=shapes[0])


def _missing(model: FinalModel, what: str) -> ConfigurationError:
    name = model.project
    return ConfigurationError(
        f"final_model/ of {name} does not hold how its rows are prepared: {what}. A service that guessed would answer "
        "otherwise than the model was evaluated.",
        remedy=f"configure(project={name!r}, begin_release=True), then export_model(project={name!r}) and the last "
        "gate again: this version writes what is missing.",
    )
