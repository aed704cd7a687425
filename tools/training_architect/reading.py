"""Reading of an inspection: what is learned from which columns, and what has to be asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainwright.tools.training_architect.columns import (
    IDENTIFIER,
    require_cells,
    require_columns,
    settle_target,
    take_target,
)
from trainwright.tools.training_architect.documents import Rulebook
from trainwright.tools.training_architect.facts import IN_BLOCKS
from trainwright.tools.training_architect.goals import (
    GoalReading,
    Question,
    bound_of,
    kind_of_sentence,
    read_goal,
)
from trainwright.tools.training_architect.groups import read_given, read_groups
from trainwright.tools.training_architect.naive_forecasts import beside_naive
from trainwright.tools.training_architect.places import TABLES
from trainwright.tools.training_architect.ranking import read_ranking
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.training_architect.series import read_series
from trainwright.tools.training_architect.several import kind_of_several, siblings_told, take_each
from trainwright.tools.training_architect.two_classes import of_two_classes
from trainwright.trainer.base.errors import ConfigurationError

MASKS = re.compile(r"^(?:masks?|annotations?|segmentations?|seg|gt)(?:[_-]\w+)?$", re.IGNORECASE)
"""Names of a folder of masks."""
MAX_OTHER_COLUMNS = 2
"""Columns besides text and target up to which a table is taken for one of texts."""
IMAGE_SOURCES = ("images", "digits")
CHANNELS = (1, 3, 4)
IMAGE_AXES = 3
"""Of an array that is taken for an image: channels, height, width."""
OF_COLUMNS = frozenset({"ft_transformer", "tabular_resnet"})
"""Models that take a row of numbers alone, and no array of more axes."""
FORMS = {
    "token_classification": "words with tags", "question_answering": "questions with answers in their contexts",
    "multiple_choice": "questions with choices", "seq2seq": "texts with texts to be written", "chat": "conversations",
}  # fmt: skip
"""Sources whose rows are of a form of their own, in words."""
MAX_WINDOW = 384
"""Tokens of a question with a part of its context (Devlin et al. 2019, arXiv:1810.04805)."""
SHARE_OF_TRAIN = 0.7


@dataclass
class Reading:
    """What is to be learned, with what was assumed on the way."""

    task: str | None = None
    text: str | None = None
    target: str | None = None
    """Column to predict, the first of several."""
    further: list[str] = field(default_factory=list)
    """Columns that are predicted together with the target."""
    others: list[str] = field(default_factory=list)
    """Columns that the sentence names as predicted too, where the call names fewer: no inputs."""
    form: dict[str, Any] | None = None
    """The source and columns of rows that are of a form of their own."""
    series: dict[str, Any] | None = None
    """Windows over the rows in order of time, as data.args.series has them."""
    split: dict[str, Any] | None = None
    """How rows are split, where the call does not say it."""
    things: list[str] = field(default_factory=list)
    """Columns that number what several rows are of: no inputs."""
    ranks: bool = False
    """Whether the order of the rows of a group is what counts."""
    goal: GoalReading = field(default_factory=GoalReading)
    questions: list[Question] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        """All columns to predict."""
        return [self.target, *self.further] if self.target is not None else []


def read_task(request: PlanRequest, found: dict[str, Any]) -> Reading:
    """Return the task and its columns; questions where they are open."""
    reading = Reading(task=request.task)
    if request.data is None:
        reading.questions.append(
            Question(
                "Which data? A file or folder under code_root (csv, jsonl, parquet, txt, a folder of pictures)", "data"
            )
        )
        return _with_goal(request, {}, reading)
    use, data = request.data["use"], found.get("data") or {}
    if data.get("form"):
        _read_form(use, data["form"], reading)
    elif reading.task in FORMS and use in TABLES:
        reading.questions.append(
            Question(f"Which columns hold {FORMS[str(reading.task)]}? See configs/transformers.md", "data")
        )
    elif use in TABLES:
        require_columns(request, data)
        if not read_ranking(request, data, reading):
            _read_table(request, data, reading)
        read_given(request, data, reading)
        split = (request.data or {}).get("split") or reading.split or {}
        require_cells(data, [*reading.targets, *reading.things, *map(str, split.values())], reading.assumed)
        read_groups(request, data, reading)
    elif reading.task is None:
        _refuse_masks(request, use, data)
        _refuse_channels_last(request, data)
        reading.task = _task_of(use, data)
    if reading.task == "language_model" and request.task is None and (found.get("model") or {}).get("masked"):
        reading.task = "masked_language_model"
        reading.assumed.append("the model was made to tell hidden tokens, so that is what it goes on learning")
    if reading.task is None and not reading.questions:
        reading.questions.append(Question("What is to be learned from these data?", "task"))
    return _with_goal(request, data, reading)


def _with_goal(request: PlanRequest, data: dict[str, Any], reading: Reading) -> Reading:
    """Settle the goal as call and sentence name it, with the questions that are open in it."""
    facts = facts_of_data(data, reading.targets) | ({"ranks": True} if reading.ranks else {})
    if len(reading.targets) < 2:
        labels = ((request.data or {}).get("args") or {}).get("labels") or {}
        facts |= of_two_classes(data, next(iter(reading.targets), None), labels)
    goal = read_goal(request, reading.task, facts)
    if len(reading.targets) > 1:
        take_each(request.intent, reading.targets, goal)
    if not goal.questions:
        goal = bound_of(goal, facts, task=reading.task, is_asked=request.target is not None)
    goal = beside_naive(request.intent, goal, data, reading)
    reading.goal = goal
    reading.questions += goal.questions
    reading.assumed += goal.assumed
    return reading


def _refuse_channels_last(request: PlanRequest, data: dict[str, Any]) -> None:
    """Refuse images whose channels are the last axis: networks take them first. Raises ConfigurationError."""
    shape = data.get("shape") or []
    if request.network is None and len(shape) == IMAGE_AXES and shape[2] in CHANNELS and shape[0] not in CHANNELS:
        raise ConfigurationError(
            f"Rows of shape {tuple(shape)} look like images with their channels last; networks here take them first.",
            remedy=f"Save them as (rows, {shape[2]}, {shape[0]}, {shape[1]}): numpy.transpose(x, (0, 3, 1, 2)). Or "
            "name task='table_classification' where they are none.",
            document="configs/images.md",
        )


def _refuse_masks(request: PlanRequest, use: str, data: dict[str, Any]) -> None:
    """Refuse to take pictures and their masks for two classes. Raises ConfigurationError."""
    folders = list(data.get("classes") or {}) if use == "images" else []
    masks = [name for name in folders if MASKS.search(name)]
    if len(masks) != 1 or len(folders) != 2:
        return
    path = (request.data or {}).get("args", {}).get("path")
    pictures = next(name for name in folders if name not in masks)
    args = {"path": f"{path}/{pictures}", "masks": f"{path}/{masks[0]}"}
    raise ConfigurationError(
        f"The folders {pictures} and {masks[0]} look like pictures and their masks, which are not two classes.",
        remedy=f"create_project with data={{'use': 'images', 'args': {args}}}: plan_training does not plan "
        "masks. Or name task='image_classification', if they are classes.",
        document="configs/images.md",
    )


def _read_form(use: str, form: dict[str, Any], reading: Reading) -> None:
    """Take the task and the columns of rows that are of a form of their own."""
    reading.form = {"use": form["use"], "args": form["args"]}
    reading.task = reading.task or _task_of(form["use"], {})
    if use in TABLES:
        named = ", ".join(f"{name} {column!r}" for name, column in form["args"].items() if name != "path")
        reading.assumed.append(f"the rows are {FORMS[form['use']]}{f': {named}' if named else ''}")


def _task_of(use: str, data: dict[str, Any]) -> str | None:
    if use in {"text", "chat"}:
        return "language_model" if use == "text" else "instruction"
    if use in FORMS:
        return use
    if use in IMAGE_SOURCES:
        return None if data.get("is_number") else "image_classification"
    if data.get("is_number"):
        return "table_regression"
    if len(data.get("shape") or ()) == IMAGE_AXES:
        return "image_classification"
    return "table_classification" if data.get("classes") else None


def _read_table(request: PlanRequest, data: dict[str, Any], reading: Reading) -> None:
    args = (request.data or {}).get("args") or {}
    columns = {one["name"]: one for one in data.get("columns", [])}
    take_target(request, columns, data.get("text"), reading)
    reading.text = args.get("text")
    if not reading.text and read_series(request, data, reading):
        settle_target(request, columns, None, reading)
        return
    if request.task in IN_BLOCKS:
        reading.text = reading.text or data.get("text")
        return
    rest = [name for name in columns if name != data.get("text") and not IDENTIFIER.search(name)]
    if request.task is None and reading.target is None and data.get("text") and not rest:
        reading.text, reading.task = data["text"], "language_model"
        reading.assumed.append(f"the texts in column {reading.text!r} are what is learned: there is nothing to predict")
        return
    settle_target(request, columns, args.get("text") or data.get("text"), reading)
    if reading.target is None:
        return
    others = [
        name for name in columns if name not in {*reading.targets, data.get("text")} and not IDENTIFIER.search(name)
    ]
    is_textual = (request.task or "").startswith("text_") or (request.task is None and len(others) <= MAX_OTHER_COLUMNS)
    if reading.text is None and data.get("text") not in {None, *reading.targets} and is_textual:
        reading.text = data["text"]
        reading.assumed.append(f"the texts are in column {reading.text!r}, the one with the most words")
    if reading.further:
        what = kind_of_several(request, reading.targets, columns)
        reading.task = reading.task or f"{'text' if reading.text else 'table'}_{what}"
        return
    if reading.text is None:
        reading.assumed += siblings_told(reading.target, [one for one in others if one not in reading.others], columns)
    column = columns.get(reading.target, {})
    what = "regression" if column.get("kind") == "number" else "classification"
    if column.get("of_numbers") and not request.task and (kind := kind_of_sentence(request)) is not None:
        what = kind
    elif column.get("of_numbers") and not request.task:
        reading.assumed.append(
            f"the {column['different']} different whole numbers of {reading.target!r} are classes; numbers to predict "
            "are task table_regression"
        )
    reading.task = reading.task or f"{'text' if reading.text else 'table'}_{what}"


def family_of(model: dict[str, Any], task: str) -> str:
    """Return the family of a model, as rules name it."""
    use = model["use"]
    if use in {"transformers", "gpt"}:
        return str(use)
    if task.startswith(("table_", "series_")):
        return "table"
    return "image" if task.startswith("image_") else "other"


def proposed_models(task: str, book: Rulebook, axes: int = 1) -> list[tuple[dict[str, Any], str]]:
    """Return the models for a task that names none, the first first, each with why.

    Args:
        axes: of a row's inputs.
    """
    if task in book.built_in:
        listed: list[dict[str, dict[str, Any]]] = [
            {one: {}} if isinstance(one, str) else one for one in book.built_in[task]
        ]
        built_in = [{"use": name, "args": dict(args)} for one in listed for name, args in one.items()]
        fitting = [model for model in built_in if axes == 1 or model["use"] not in OF_COLUMNS]
        return [(model, "a built-in model for such data") for model in fitting]
    names = [name for name, known in book.known.items() if task in known.tasks]
    return [({"use": "transformers", "args": {"hub": name}}, "a small model that is often enough") for name in names]


def facts_of_data(data: dict[str, Any], targets: Sequence[str]) -> dict[str, Any]:
    """Return the facts that the inspection of the data gives, with the classes of the column that is predicted.

    Of several columns each number is the mean, as metrics are.
    """
    facts: dict[str, Any] = {"rows": data["rows"]} if data.get("rows") else {}
    known = {one["name"]: one for one in data.get("columns", [])}
    columns: list[dict[str, Any]] = [known.get(name, {}) for name in targets]
    if columns and all(one.get("spread") for one in columns):
        spreads = [one["spread"] for one in columns]
        shared = [name for name in spreads[0] if all(name in one for one in spreads)]
        facts["target_spread"] = {name: sum(one[name] for one in spreads) / len(spreads) for name in shared}
        facts["target_least"] = min(one["least"] for one in spreads)
    if len(columns) > 1:
        return facts | ({"labels": True} if all(one.get("different") == 2 for one in columns) else {})
    column, target = (columns[0], targets[0]) if columns else ({}, "")
    facts |= {"classes": column["different"]} if column.get("kind") == "category" else {}
    data = data | (data.get("counts") or {}).get(target, {})
    classes = data.get("classes") or {}
    if classes:
        smallest = data.get("smallest") or min(classes.values())
        facts["classes"] = data.get("class_count") or len(classes)
        facts["majority_share"] = max(classes.values()) / max(data["rows"], 1)
        if smallest:
            facts["imbalance"] = round(max(classes.values()) / smallest, 1)
    facts |= (data.get("form") or {}).get("facts") or {}
    if data.get("target_tokens"):
        facts["target_length_that_fits_99_percent"] = _rounded(data["target_tokens"]["p99"])
    tokens = data.get("tokens")
    if tokens:
        facts |= {"tokens_p50": tokens["p50"], "tokens_p95": tokens["p95"], "tokens_p99": tokens["p99"]}
    return facts


def kind_of_target(data: dict[str, Any], targets: Sequence[str]) -> str | None:
    """Return whether columns can be predicted as `regression` or `classification` alone; None where as either."""
    columns = [one for one in data.get("columns", []) if one["name"] in targets]
    if any(one.get("is_fraction") for one in columns):
        return "regression"
    return "classification" if any(one.get("kind") == "category" and one["words"] for one in columns) else None


def lengths(facts: dict[str, Any]) -> dict[str, Any]:
    """Return lengths in tokens that fit the texts and the model."""
    if "tokens_p99" not in facts:
        return {}
    most = facts.get("most_tokens") or 1024
    whole = min(_rounded(facts["tokens_p99"]), most)
    block = min(max(_rounded(facts["tokens_p95"]), 64), 1024, most)
    window = min(whole, MAX_WINDOW)
    return {
        "length_that_fits_99_percent": whole, "block_that_fits_95_percent": block, "window_of_contexts": window,
        "shared_tokens": window // 3,
    }  # fmt: skip


def _rounded(tokens: int) -> int:
    """Return the next power of two up to 64, and the next multiple of 64 beyond."""
    return max(16, 1 << (tokens - 1).bit_length()) if tokens <= 64 else -(-tokens // 64) * 64
