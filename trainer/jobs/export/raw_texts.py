"""Raw held-out texts for the proof of `predict.py`, tokenized as training does it, and what the model says of each.

What is said is read off the model's own outputs, with the tokenizer that training used, and not by predict.py's code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.clean_room.spans import best_spans
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.text.chat import chosen_rows, messages_of, rendered
from trainwright.trainer.data.text.joined import Pair, inputs_of
from trainwright.trainer.data.text.pairs import encode_pair
from trainwright.trainer.data.text.questions import tokens_of
from trainwright.trainer.data.text.token_labels import encode_words, first_tokens, listed_cell
from trainwright.trainer.data.text.tokenizers import LibraryTokenizer, Tokenizer
from trainwright.trainer.data.text.tokens import tokenized
from trainwright.trainer.data.text.transform import filled_up
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.own_functions import held_out
from trainwright.trainer.jobs.export.parity import wanted_of
from trainwright.trainer.jobs.export.predict import Schema
from trainwright.trainer.jobs.export.raw_inputs import FEW, Answers, Given, written_rows
from trainwright.trainer.jobs.export.served import Served
from trainwright.trainer.jobs.export.texts import tokenizer_of
from trainwright.trainer.prediction.command import stacked

WRITTEN_TEXTS, WRITTEN_TOKENS = 4, 6
"""Texts that the model writes for the comparison, and tokens of each: every token runs the model."""
CLOSE = 1e-3
"""By which scores may differ for either to be the largest."""
Row = dict[str, Any]
Check = Callable[[Mapping[str, Any]], str]
"""Returns what is wrong with an answer; empty: nothing."""


class Model:
    """The model, called as the program is: the first output for inputs by name."""

    def __init__(self, session: Session, served: Served) -> None:
        text = session.work.splits.text
        assert text is not None, "of texts"  # noqa: S101
        self.serving, self.names = served.serving, list(next(served.rows.batches()))
        self.tokenizer: Tokenizer = tokenizer_of(session, text)

    def __call__(self, inputs: Mapping[str, Any]) -> Tensor:
        """Return the outputs, (rows, ...), for arrays (rows, ...)."""
        named = inputs if set(self.names) <= inputs.keys() else dict(zip(self.names, inputs.values(), strict=False))
        return wanted_of(self.serving, {name: torch.as_tensor(named[name]) for name in self.names})[0]

    def after(self, tokens: Sequence[int], seen: int) -> Tensor:
        """Return the scores of the token after some, (vocabulary,)."""
        some = torch.tensor([tokens[-seen:]])
        places = torch.arange(some.shape[1])[None]
        return self({"input_ids": some, "attention_mask": torch.ones_like(some), "position_ids": places})[0, -1]


def is_likeliest(scores: Tensor, number: int) -> bool:
    """Return whether one of some scores, (classes,), is the largest but for rounding."""
    return 0 <= number < len(scores) and bool(scores[number] >= scores.max() - CLOSE)


def _given(arguments: list[str], outputs: list[Tensor], checks: Sequence[Check]) -> Given:
    def wrong(answers: Answers) -> str:
        if len(answers) != len(checks):
            return f"{len(answers)} answers to {len(checks)} inputs"
        found = (check(answer) for check, answer in zip(checks, answers, strict=True))
        return next((f"input {place}: {told}" for place, told in enumerate(found, start=1) if told), "")

    return Given(arguments, torch.from_numpy(stacked([one.numpy() for one in outputs])), wrong)


def _rows(session: Session, count: int) -> list[Row]:
    """Return held-out rows of the user's files."""
    section = session.config.data
    assert section is not None, "a built-in source"  # noqa: S101
    source: Any = open_source(section.use, section.args)
    rows = source.rows(session.context.code_root)[1]
    return [rows[place][1] for place in held_out(session).rows[:count]]


def _file(rows: list[Row], names: Sequence[str], schema: Schema, place: Path) -> list[str]:
    kept = [{name: row[name] for name in names} for row in rows]
    return [str(written_rows(json.loads(json.dumps(kept, default=str)), schema, place / "rows", as_text=False))]


def _words(session: Session, served: Served, schema: Schema, place: Path) -> Given:
    model, text, names = Model(session, served), schema["text"], schema["answer"]["classes"]
    rows, outputs, checks = _rows(session, FEW), [], []
    for row in rows:
        words = listed_cell(row[text["column"]])
        tokens, places = encode_words(model.tokenizer, words, text["max_length"])
        outputs.append(model(filled_up([tokens], text["padding"])))
        labels = first_tokens(places, range(len(words)))
        checks.append(_tags({word: at for at, word in enumerate(labels) if word >= 0}, outputs[-1][0], names))
    return _given(_file(rows, [text["column"]], schema, place), outputs, checks)


def _tags(first: dict[int, int], scores: Tensor, names: list[str]) -> Check:
    def check(answer: Mapping[str, Any]) -> str:
        said = {place: word for place, word in enumerate(answer["words"]) if word["tag"] is not None}
        if said.keys() != first.keys():
            return f"{len(said)} words have tags, and {len(first)} have them in training"
        other = [word for place, word in said.items()
                 if not is_likeliest(scores[first[place]], names.index(word["tag"]))]  # fmt: skip
        return f"{other[0]['word']!r} is {other[0]['tag']}" if other else ""

    return check


def _question(session: Session, served: Served, schema: Schema, place: Path) -> Given:
    model, text = Model(session, served), schema["text"]
    rows, outputs, checks = _rows(session, FEW), [], []
    for row in rows:
        context = row[text["context"]]
        pairs = encode_pair(model.tokenizer, row[text["question"]], context, text["max_length"], text["stride"])
        outputs.append(model(inputs_of(pairs, text["padding"])))
        checks.append(_span(pairs, outputs[-1], context))
    return _given(_file(rows, [text["question"], text["context"]], schema, place), outputs, checks)


def _span(pairs: list[Pair], scores: Tensor, context: str) -> Check:
    def check(answer: Mapping[str, Any]) -> str:
        span = None if answer["from"] is None else (answer["from"], answer["to"])
        if answer["answer"] != ("" if span is None else context[slice(*span)]):
            return f"{answer['answer']!r} is not in the context at {span}"
        if len(pairs) > 1:  # of which one is chosen
            return ""
        first, last = best_spans(scores.double().numpy(), np.zeros((1, 2)))[0]
        inside = pairs[0].places[first] is not None and pairs[0].places[last] is not None
        said = tokens_of(pairs[0], span)
        least = scores[0, first, 0] + scores[0, last, 1] - CLOSE
        if (inside or (first, last) == (0, 0)) and scores[0, said[0], 0] + scores[0, said[1], 1] < least:
            return f"{answer['answer']!r} is not the likeliest answer"
        return ""

    return check


def _choices(session: Session, served: Served, schema: Schema, place: Path) -> Given:
    model, text = Model(session, served), schema["text"]
    columns = [text["choices"]] if isinstance(text["choices"], str) else text["choices"]
    rows, outputs, checks = _rows(session, FEW), [], []
    for row in rows:
        cells = [row[column] for column in columns]
        listed: Any = cells if len(cells) > 1 else cells[0].get("text") if isinstance(cells[0], Mapping) else cells[0]
        pairs = [encode_pair(model.tokenizer, row[text["question"]], one, text["max_length"], 0)[0] for one in listed]
        outputs.append(model({name: value[None] for name, value in inputs_of(pairs, text["padding"]).items()}))
        checks.append(_choice(outputs[-1][0]))
    return _given(_file(rows, [text["question"], *columns], schema, place), outputs, checks)


def _choice(scores: Tensor) -> Check:
    return lambda answer: "" if is_likeliest(scores, answer["number"]) else f"{answer['choice']!r} is not the likeliest"


def _masked(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:  # noqa: ARG001
    model, text, samples = Model(session, served), schema["text"], held_out(session)
    made, start = model.tokenizer, int(samples.starts[0])
    words = made.decode(samples.tokens[start : start + min(int(samples.lengths[0]), FEW)].tolist()).split()
    if not words or "\ufffd" in words:
        return "the first held-out tokens are no words as text"
    left = " ".join(words[:-1])
    begin = [] if made.boundary is None else [made.boundary]
    tokens = [*begin, *(made.encode(left).tolist() if left else []), text["mask"]]
    output = model(filled_up([tokens], text["padding"]))

    def check(answer: Mapping[str, Any]) -> str:
        likely = (output[0, -1] >= output[0, -1].max() - CLOSE).nonzero().flatten().tolist()
        word = answer["words"][0][0]["word"]
        return "" if word in {made.decode([one]) for one in likely} else f"{word!r} is not the likeliest"

    blank = " " * bool(left and isinstance(made, LibraryTokenizer))
    return _given([f"{left}{blank}{text['mark']}"], [output], [check])


def _sources(session: Session, served: Served, schema: Schema, place: Path) -> Given:
    model, text = Model(session, served), schema["text"]
    rows, outputs, checks = _rows(session, WRITTEN_TEXTS), [], []
    for row in rows:
        tokens = model.tokenizer.encode_whole(text["prefix"] + row[text["column"]], text["max_length"]).tolist()
        inputs = filled_up([tokens], text["padding"])

        def after(written: Sequence[int], inputs: Mapping[str, Any] = inputs) -> Tensor:
            return model({**inputs, "decoder_input_ids": torch.tensor([[text["start"], *written]])})[0, -1]

        outputs.append(after([])[None])
        checks.append(_text(after, {text["end"]}, model.tokenizer, skipped=[text["padding"]]))
    file = _file(rows, [text["column"]], schema, place)
    return _given(["--tokens", str(WRITTEN_TOKENS), *file], outputs, checks)


def _text(
    after: Callable[[Sequence[int]], Tensor],
    ends: set[int],
    made: Tokenizer,
    skipped: Sequence[int] = (),
    stop: str | None = None,
) -> Check:
    """Return the check of a text that is written by the likeliest token each time, up to the first near tie."""
    written: list[int] = []
    is_sure = True
    while len(written) < WRITTEN_TOKENS:
        first, second = (scores := after(written)).topk(2).values
        is_sure = is_sure and bool(first - second > CLOSE)
        if (token := int(scores.argmax())) in ends:
            break
        written.append(token)
    wanted = made.decode([token for token in written if token not in skipped])
    wanted = wanted.partition(stop)[0] if stop else wanted

    def check(answer: Mapping[str, Any]) -> str:
        same = answer["text"].strip() == wanted.strip().removesuffix("\ufffd")
        return "" if same or not is_sure else f"{answer['text']!r} for {wanted!r}"

    return check


def _prompts(session: Session, served: Served, schema: Schema, place: Path) -> Given:  # noqa: ARG001
    text, model = "The beginning of a text", Model(session, served)
    boundary = schema["text"]["boundary"]
    tokens = [*([] if boundary is None else [boundary]), *model.tokenizer.encode(text).tolist()]
    return _written_on(model, schema, [text], [tokens])


def _written_on(model: Model, schema: Schema, arguments: list[str], prompts: Sequence[list[int]]) -> Given:
    text = schema["text"]

    def check(prompt: list[int]) -> Check:
        return _text(
            lambda written: model.after([*prompt, *written], text["block_size"]), set(text["ends"]), model.tokenizer,
            stop=text.get("stop"),
        )  # fmt: skip

    outputs = [model.after(prompt, text["block_size"])[None] for prompt in prompts]
    options = ["--temperature", "0", "--tokens", str(WRITTEN_TOKENS)]
    return _given([*options, *arguments], outputs, [check(prompt) for prompt in prompts])


def _conversations(session: Session, served: Served, schema: Schema, place: Path) -> Given | str:
    model, section = Model(session, served), session.config.data
    assert section is not None, "a built-in source"  # noqa: S101
    source: Any = open_source(section.use, section.args)
    rows = source.rows(session.context.code_root)[1]
    library: Any = model.tokenizer if "template" in schema["text"] else None
    documents = [rendered(where, row, library) for where, row in rows]
    chosen = chosen_rows(rows, documents, section.split)
    asked: list[Row] = []
    prompts: list[list[int]] = []
    for number in chosen.get("validation", chosen["train"])[:WRITTEN_TEXTS].tolist():
        messages = messages_of(rows[number][1], lambda: "a row")
        last = max(at for at, message in enumerate(messages) if message["role"] == "assistant")
        if last and messages[last - 1]["role"] != "assistant":
            answer = max(at for at, (_, is_target) in enumerate(documents[number]) if is_target)
            prompts.append(tokenized([documents[number][:answer]], model.tokenizer).tokens.tolist())
            asked.append({"messages": messages[:last]})
    if not asked:
        return "no held-out conversation asks before its last answer"
    return _written_on(model, schema, [str(written_rows(asked, schema, place / "chats", as_text=False))], prompts)


KINDS: dict[str, Callable[[Session, Served, Schema, Path], Given | str]] = {
    "words": _words, "question": _question, "choices": _choices, "masked": _masked, "source": _sources,
    "prompt": _prompts, "conversation": _conversations,
}  # fmt: skip
