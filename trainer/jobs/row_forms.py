"""Forms of rows that a task has: which task a table's columns are made for, recognised by their names and cells.

A form is a data source with the names of its columns. Nothing is guessed from a name alone: a column of tags has as
many entries as its column of words, an answer lies in its context.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trainwright.trainer.data.text.token_labels import are_entities

Row = Mapping[str, Any]
Form = dict[str, Any]
"""{use, args}: a source, and the columns that differ from its defaults."""

WORDS = re.compile(r"^(words|tokens|sentence|text)$", re.IGNORECASE)
TAGS = re.compile(r"^(tags|labels|\w+_tags)$", re.IGNORECASE)
QUESTIONS = re.compile(r"^(question|query|prompt|sentence1|sent1|startphrase|ctx|premise)$", re.IGNORECASE)
CONTEXTS = re.compile(r"^(context|passage|paragraph|article|document)$", re.IGNORECASE)
ANSWERS = re.compile(r"^(answers?|answer_text)$", re.IGNORECASE)
CHOICES = re.compile(r"^(choices|options|endings|candidates)$", re.IGNORECASE)
A_CHOICE = re.compile(r"^(?P<stem>ending|choice|option|answer|solution)[_ ]?(?P<number>\d|[a-e])$", re.IGNORECASE)
RIGHT = re.compile(r"^(answer|answer_?key|label|gold|correct|target|answer_?idx)$", re.IGNORECASE)
WRITTEN = re.compile(r"^(summary|highlights|abstract|translation|target_text|target|output|rewritten)$", re.IGNORECASE)
READ = re.compile(r"^(article|document|dialogue|source|source_text|text|input|input_text)$", re.IGNORECASE)
WORDS_OF_A_TEXT = 2.0
"""On average, from which a cell is taken for a text and no class."""
CONVERSATIONS = ({"messages"}, {"conversations"}, {"instruction", "output"}, {"prompt", "completion"})
"""Columns of which each set makes a conversation."""


def form_of(rows: Sequence[Row], wanted: str | None = None) -> Form | None:
    """Return the form that all rows have, the most special first, or only the `wanted` source; None for a table."""
    if not rows:
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = (form for recognised in FORMS if (form := recognised(names, rows)) is not None)
    return next((form for form in found if wanted in {None, form["use"]}), None)


def facts_of(form: Form, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what rows of a form say beside their texts: choices of a question, or kinds of tags."""
    args = form["args"]
    if form["use"] == "multiple_choice":
        count = len(choices_of(args.get("choices", "choices"), rows[0]))
        return {"choices": count, "majority_share": 1 / count}
    if form["use"] == "token_classification":
        tags = [str(tag) for row in rows for tag in _listed(row.get(args.get("tags", "tags")))]
        return {"classes": len(set(tags)), "entities": are_entities(args.get("tag_names") or set(tags))}
    return {}


def text_of(use: str, args: Mapping[str, Any], row: Row) -> str:
    """Return the text that a sample of a row holds, as a tokenizer is to count it; of choices the longest one's."""
    if use == "token_classification":
        return " ".join(map(str, _listed(row.get(args.get("words", "tokens")))))
    if use == "question_answering":
        return f"{row.get(args.get('question', 'question'))} {row.get(args.get('context', 'context'))}"
    if use == "multiple_choice":
        longest = max(choices_of(args.get("choices", "choices"), row), key=len, default="")
        return f"{row.get(args.get('question', 'question'))} {longest}"
    return f"{args.get('prefix', '')}{row.get(args.get('text', 'text'))}"


def choices_of(named: str | Sequence[str], row: Row) -> list[str]:
    """Return a row's choices: of a column with a list of them, or of a column for each."""
    if not isinstance(named, str):
        return [str(row.get(name)) for name in named]
    cell = row.get(named)
    cell = cell.get("text") if isinstance(cell, Mapping) else cell
    return [str(one) for one in cell] if isinstance(cell, list | tuple) else []


def _chat(names: Sequence[str], rows: Sequence[Row]) -> Form | None:
    found = next((one for one in CONVERSATIONS if one <= set(names)), None)
    if found is None:
        return None
    column = next(iter(found))
    if len(found) == 1 and not all(_is_list(row.get(column)) for row in rows):
        return None
    return {"use": "chat", "args": {}}


def _tagged(names: Sequence[str], rows: Sequence[Row]) -> Form | None:
    """Return the columns of words and tags: two lists of one length in every row, the first of texts."""
    words, tags = (next((name for name in names if kind.match(name)), None) for kind in (WORDS, TAGS))
    if words is None or tags is None:
        return None
    for row in rows:
        said, given = _listed(row.get(words)), _listed(row.get(tags))
        if len(said) != len(given) or not said or not all(isinstance(word, str) for word in said):
            return None
    if all(len(_listed(row.get(tags))) == 1 for row in rows):  # one label for one text
        return None
    return {"use": "token_classification", "args": {"words": words, "tags": tags}}


def _asked(names: Sequence[str], rows: Sequence[Row]) -> Form | None:
    """Return the columns of questions, contexts and answers, where every answer lies in its context."""
    found = [next((name for name in names if kind.match(name)), None) for kind in (QUESTIONS, CONTEXTS, ANSWERS)]
    question, context, answer = found
    if question is None or context is None or answer is None or question == context:
        return None
    for row in rows:
        said = _answered(row.get(answer))
        if said and said not in str(row.get(context)):
            return None
    start = {"answer_start": "answer_start"} if "answer_start" in names else {}
    return {"use": "question_answering", "args": {"question": question, "context": context, "answer": answer, **start}}


def _answered(cell: Any) -> str:
    found = cell.get("text") if isinstance(cell, Mapping) else cell
    found = found[0] if isinstance(found, list) and found else found
    return found if isinstance(found, str) else ""


def _chosen(names: Sequence[str], rows: Sequence[Row]) -> Form | None:
    """Return the columns of questions, choices (a list, or a column for each) and the right one."""
    question = next((name for name in names if QUESTIONS.match(name)), None)
    right = next((name for name in names if RIGHT.match(name)), None)
    listed = next((name for name in names if CHOICES.match(name)), None)
    columns: str | list[str] | None = listed
    if listed is None:
        alike = [name for name in names if A_CHOICE.match(name)]
        columns = alike if len(alike) > 1 and len({_stem(name) for name in alike}) == 1 else None
    if question is None or right is None or columns is None or right == columns:
        return None
    if len({len(choices_of(columns, row)) for row in rows}) != 1 or len(choices_of(columns, rows[0])) < 2:
        return None
    return {"use": "multiple_choice", "args": {"question": question, "choices": columns, "answer": right}}


def _stem(name: str) -> str:
    found = A_CHOICE.match(name)
    return found["stem"].lower() if found else ""


def _written(names: Sequence[str], rows: Sequence[Row]) -> Form | None:
    """Return the columns of a text that is read and of one that is written from it: both of several words."""
    target = next((name for name in names if WRITTEN.match(name)), None)
    text = next((name for name in names if READ.match(name) and name != target), None)
    if text is None or target is None:
        return None
    read, written = ([row.get(name) for row in rows] for name in (text, target))
    if not all(isinstance(cell, str) for cell in (*read, *written)):
        return None
    words = [sum(len(str(cell).split()) for cell in column) / len(column) for column in (read, written)]
    is_class = len(set(written)) <= max(len(rows) // 4, 1)
    if min(words) < WORDS_OF_A_TEXT or is_class:
        return None
    return {"use": "seq2seq", "args": {"text": text, "target": target}}


FORMS: tuple[Callable[[Sequence[str], Sequence[Row]], Form | None], ...] = (_chat, _tagged, _chosen, _asked, _written)
"""In order: the first that recognises the rows names their task."""


def _is_list(cell: Any) -> bool:
    return isinstance(cell, list | tuple)


def _listed(cell: Any) -> list[Any]:
    """Return a cell as a list; a text (of a CSV) holds one as JSON, or words with blanks between them."""
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        with suppress(ValueError):
            cell = json.loads(cell)
    if isinstance(cell, str):
        return list(cell.split())
    return list(cell) if _is_list(cell) else [] if cell is None else [cell]
