"""Reading of an inspection: what is learned from which columns, and what has to be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.facts import IN_BLOCKS
from trainwright.tools.training_architect.goals import (
    GoalReading,
    Question,
    bound_of,
    kind_of_sentence,
    read_goal,
)
from trainwright.tools.training_architect.request import TABLES
from trainwright.tools.training_architect.series import read_series
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.goal_words import any_of

if TYPE_CHECKING:
    from trainwright.tools.training_architect.documents import Rulebook
    from trainwright.tools.training_architect.request import PlanRequest

TARGETS = re.compile(
    r"^(label|labels|target|class|category|y|queue|topic|intent|sentiment|answer|outcome|stars|rating|churn(ed)?|fraud|default(ed)?|survived|species|diagnosis)$",
    re.I,
)
PREDICTS = any_of(
    r"predict\w*|forecast\w*|estimat\w+|classif\w+|detect\w*|guess\w*|tell\w*|regress\w*|recogni[sz]\w+|vorher\w+"
    r"|prognos\w+|schätz\w*|erkenn\w*|klassifizier\w*|target(?: column)?(?: is)?|which|who|whether|wer|ob|welche\w*"
)
"""Words behind which a sentence names what is predicted."""
SOURCES = re.compile(
    r"\b(?:from|using|with|by|based on|given|aus|anhand|mit|mithilfe|aufgrund|having)\b|[;:]|[.,](?=\s)", re.IGNORECASE
)
"""Words behind which it names from what, or goes on."""
GIVEN = any_of(r"from|using|by|based on|given|depend\w* on|aus|anhand|mithilfe|aufgrund|abhängig|je nach")
"""Those behind which no column is what is predicted, whatever stands there alone."""
BESIDE = any_of(
    r"this|these|any|each|every|all|per|in|on|at|am|im|an|bei|pro|dies\w*|jede\w*",
    end=r"\s+(?:(?:the|a|an|any|each|given|certain|same|der|dem|den|einem|einer)\s+)*$",
)
"""Words before a column's name that make it a part of the circumstances: `in this table`, `at any time`."""
SHORTEST_STEM = 5
PRONOUNS = frozenset({
    "who", "which", "what", "whether", "when", "where", "how", "all", "any", "each", "one", "this", "that", "is", "it",
    "wer", "was", "wie", "ob", "wo", "wann", "alle",
})  # fmt: skip
"""Names of columns that a sentence says anyway: there they are columns in quotes, or behind the word alone."""
FLAG = re.compile(r"^(?:is|has|was|did)_(?=\w)", re.IGNORECASE)
"""Begin of a column's name that a sentence leaves out: is_fraud."""
MASKS = re.compile(r"^(?:masks?|annotations?|segmentations?|seg|gt)(?:[_-]\w+)?$", re.IGNORECASE)
"""Names of a folder of masks."""
IDENTIFIER = re.compile(r"(^|_)(id|uuid|key|index)$|^id_", re.IGNORECASE)
MOST_CLASSES = 50
MOST_SHOWN = 12
"""Columns of a question, the first and the last of more."""
MOST_OTHER_COLUMNS = 2
"""Columns besides text and target up to which a table is taken for one of texts."""
IMAGE_SOURCES = ("images", "digits")
FORMS = {
    "token_classification": "words with tags", "question_answering": "questions with answers in their contexts",
    "multiple_choice": "questions with choices", "seq2seq": "texts with texts to be written", "chat": "conversations",
}  # fmt: skip
"""Sources whose rows are of a form of their own, in words."""
MOST_WINDOW = 384
"""Tokens of a question with a part of its context (Devlin et al. 2019, arXiv:1810.04805)."""
SHARE_OF_TRAIN = 0.7


@dataclass
class Reading:
    """What is to be learned, with what was assumed on the way."""

    task: str | None = None
    text: str | None = None
    target: str | None = None
    form: dict[str, Any] | None = None
    """The source and columns of rows that are of a form of their own."""
    series: dict[str, Any] | None = None
    """Windows over the rows in order of time, as data.args.series has them."""
    split: dict[str, Any] | None = None
    """How windows are split, where the call does not say it."""
    goal: GoalReading = field(default_factory=GoalReading)
    questions: list[Question] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)


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
        _read_table(request, data, reading)
    elif reading.task is None:
        _refuse_masks(request, use, data)
        reading.task = _task_of(use, data)
    if reading.task == "language_model" and request.task is None and (found.get("model") or {}).get("masked"):
        reading.task = "masked_language_model"
        reading.assumed.append("the model was made to tell hidden tokens, so that is what it goes on learning")
    if reading.task is None and not reading.questions:
        reading.questions.append(Question("What is to be learned from these data?", "task"))
    return _with_goal(request, data, reading)


def _with_goal(request: PlanRequest, data: dict[str, Any], reading: Reading) -> Reading:
    """Settle the goal as call and sentence name it, with the questions that are open in it."""
    facts = facts_of_data(data, reading.target)
    goal = read_goal(request, reading.task, facts.get("classes"))
    if not goal.questions:
        goal = bound_of(goal, facts, task=reading.task, is_asked=request.target is not None)
    reading.goal = goal
    reading.questions += goal.questions
    reading.assumed += goal.assumed
    return reading


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
    return "table_classification" if data.get("classes") else None


def _read_table(request: PlanRequest, data: dict[str, Any], reading: Reading) -> None:
    args = (request.data or {}).get("args") or {}
    columns = {one["name"]: one for one in data.get("columns", [])}
    reading.target = args.get("target") or _told_target(request, columns, data.get("text"), reading)
    reading.text = args.get("text")
    if not reading.text and read_series(request, data, reading):
        reading.target = reading.target or _guessed_target(request, columns, None, reading)
        return
    if request.task in IN_BLOCKS:
        reading.text = reading.text or data.get("text")
        return
    rest = [name for name in columns if name != data.get("text") and not IDENTIFIER.search(name)]
    if request.task is None and reading.target is None and data.get("text") and not rest:
        reading.text, reading.task = data["text"], "language_model"
        reading.assumed.append(f"the texts in column {reading.text!r} are what is learned: there is nothing to predict")
        return
    if reading.target is None:
        reading.target = _guessed_target(request, columns, args.get("text") or data.get("text"), reading)
    if reading.target is None:
        return
    others = [
        name for name in columns if name not in {reading.target, data.get("text")} and not IDENTIFIER.search(name)
    ]
    is_textual = (request.task or "").startswith("text_") or (
        request.task is None and len(others) <= MOST_OTHER_COLUMNS
    )
    if reading.text is None and data.get("text") not in {None, reading.target} and is_textual:
        reading.text = data["text"]
        reading.assumed.append(f"the texts are in column {reading.text!r}, the one with the most words")
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


def _told_target(
    request: PlanRequest, columns: dict[str, Any], text: str | None, reading: Reading
) -> str | None:  # fmt: skip
    """Return the column that the sentence names as what is predicted; None where it names none, or several alike.

    A column that is only mentioned must fit the metric, and no other may look like what is predicted.
    """
    intent = request.intent
    told = PREDICTS.search(intent)
    behind = [SOURCES.split(intent[told.end() :])[0]] if told else []
    able, fitting = _able(columns, text), _able(columns, text, kind_of_sentence(request))
    labels = _labels(fitting, columns)
    marked = [name for name in able if re.search(rf"[(`'\"]{re.escape(name)}[)`'\"]", intent, re.IGNORECASE)]
    if len(marked) == 1:
        behind = [f"column {marked[0]}"]
    for part in [*behind, GIVEN.split(intent)[0]]:  # a German verb stands last
        possible = able if part in behind else fitting
        places = {name: found for name in possible if (found := _place_of(name, part)) is not None}
        first = min(places, key=lambda name: places[name], default=None)
        if first is None:
            continue
        if part in behind or (len(places) == 1 and (first in labels or not labels)):
            reading.assumed.append(f"column {first!r} is what the sentence wants predicted")
            return first
        reading.questions.append(_which(list(dict.fromkeys([*places, *labels]))))
    return None


def _able(columns: dict[str, Any], text: str | None, kind: str | None = None) -> list[str]:
    """Return the columns that could be predicted; of a kind alone, where a metric is of one."""
    return [
        name
        for name, one in columns.items()
        if name != text and not IDENTIFIER.search(name)
        and (kind != "regression" or one["kind"] == "number" or one.get("of_numbers"))
        and ((one["kind"] == "category" and 2 <= one["different"] <= MOST_CLASSES)
             or (one["kind"] == "number" and kind != "classification"))
    ]  # fmt: skip


def _labels(able: list[str], columns: dict[str, Any]) -> list[str]:
    """Return those that are named like what is predicted."""
    return [name for name in able if TARGETS.match(FLAG.sub("", name)) and not (name.lower() == "y" and "x" in columns)]


def _place_of(name: str, text: str) -> tuple[int, int] | None:
    """Return where a column is named in a text, and its length turned: as it is written, or by a form of its word."""
    name = FLAG.sub("", name)
    words = re.sub(r"(?:_|\\[ .-]|(?<=[a-z])(?=[A-Z]))+", r"[\\s_.-]?", re.escape(name))
    if name.lower() in PRONOUNS:
        quoted = re.search(rf"[`'\"]{words}[`'\"]|\b(?:column|spalte) {words}\b", text, re.IGNORECASE)
        return None if quoted is None else (quoted.start(), -len(name))
    for match in re.finditer(rf"(?<!\w){words}(?:s|es)?(?!\w)", text, re.IGNORECASE):
        if not BESIDE.search(text[: match.start()]):
            return match.start(), -len(name)
    stem = name.lower()[: max(len(name) - 2, SHORTEST_STEM)]
    if len(name) <= SHORTEST_STEM or not stem.isalpha():
        return None
    found = re.search(rf"(?<!\w){stem}\w{{0,4}}(?!\w)", text, re.IGNORECASE)
    return None if found is None else (found.start(), -len(stem))


def _guessed_target(
    request: PlanRequest, columns: dict[str, Any], text: str | None, reading: Reading
) -> str | None:  # fmt: skip
    """Return the column that is predicted where its name, or being the only one that could be, says so; else ask."""
    able = _able(columns, text, kind_of_sentence(request))
    named = _labels(able, columns)
    chosen = named if len(named) == 1 else able if len(able) == 1 else []
    if reading.questions:
        return None
    if chosen:
        reading.assumed.append(f"column {chosen[0]!r} is what is to be predicted")
        return chosen[0]
    reading.questions.append(_which(named or able or _able(columns, text) or list(columns)))
    return None


def _which(columns: list[str]) -> Question:
    shown = columns if len(columns) <= MOST_SHOWN else columns[: MOST_SHOWN // 2] + columns[-MOST_SHOWN // 2 :]
    return Question("Which column is to be predicted?", "target_column", shown)


def family_of(model: dict[str, Any], task: str) -> str:
    """Return the family of a model, as rules name it."""
    use = model["use"]
    if use in {"transformers", "gpt"}:
        return str(use)
    if task.startswith(("table_", "series_")):
        return "table"
    return "image" if task.startswith("image_") else "other"


def proposed_models(task: str, book: Rulebook) -> list[tuple[dict[str, Any], str]]:
    """Return the models for a task that names none, the first first, each with why."""
    if task in book.built_in:
        return [({"use": name, "args": {}}, "a built-in model for such data") for name in book.built_in[task]]
    names = [name for name, known in book.known.items() if task in known.tasks]
    return [({"use": "transformers", "args": {"hub": name}}, "a small model that is often enough") for name in names]


def facts_of_data(data: dict[str, Any], target: str | None) -> dict[str, Any]:
    """Return the facts that the inspection of the data gives, with the classes of the column that is predicted."""
    facts: dict[str, Any] = {"rows": data["rows"]} if data.get("rows") else {}
    column: dict[str, Any] = next((one for one in data.get("columns", []) if one["name"] == target), {})
    facts |= {"target_spread": column["spread"]} if column.get("spread") else {}
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


def kind_of_target(data: dict[str, Any], target: str | None) -> str | None:
    """Return whether a column can be predicted as `regression` or `classification` alone; None where as either."""
    column: dict[str, Any] = next((one for one in data.get("columns", []) if one["name"] == target), {})
    if column.get("is_fraction"):
        return "regression"
    return "classification" if column.get("kind") == "category" and column["words"] else None


def lengths(facts: dict[str, Any]) -> dict[str, Any]:
    """Return lengths in tokens that fit the texts and the model."""
    if "tokens_p99" not in facts:
        return {}
    most = facts.get("most_tokens") or 1024
    whole = min(_rounded(facts["tokens_p99"]), most)
    block = min(max(_rounded(facts["tokens_p95"]), 64), 1024, most)
    window = min(whole, MOST_WINDOW)
    return {
        "length_that_fits_99_percent": whole, "block_that_fits_95_percent": block, "window_of_contexts": window,
        "shared_tokens": window // 3,
    }  # fmt: skip


def _rounded(tokens: int) -> int:
    """Return the next power of two up to 64, and the next multiple of 64 beyond."""
    return max(16, 1 << (tokens - 1).bit_length()) if tokens <= 64 else -(-tokens // 64) * 64
