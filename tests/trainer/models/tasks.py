"""Tasks of models of the Transformers library, each with rows that are drawn, a tiny model, and what must improve."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WORDS = ("red", "blue", "small", "large", "old", "new", "cat", "dog", "house", "tree", "runs", "sleeps", "sees", "the")
NAMES = ("anna", "berlin", "carla", "dover", "emil", "florence")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64,
    "initializer_range": 0.1,
}  # fmt: skip
T5 = {
    "model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0,
}  # fmt: skip
BERT = {"model_type": "bert", "max_position_embeddings": 64, **SMALL}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A code root with a tokenizer of word pieces for WORDS and NAMES."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = [
        *SPECIAL,
        *WORDS,
        "an",
        "##na",
        "ber",
        "##lin",
        "carla",
        "do",
        "##ver",
        "emil",
        "flor",
        "##ence",
        "?",
        ".",
    ]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))  # noqa: S106 - a token of text  # type: ignore[call-arg]
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    keys = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    PreTrainedTokenizerFast(tokenizer_object=made, **dict(zip(keys, SPECIAL, strict=True))).save_pretrained(
        tmp_path / "tokenizer"
    )
    return tmp_path


@dataclass(frozen=True)
class Case:
    """A task: what writes its rows, its configuration, and the score that must rise (or fall)."""

    write: Callable[[random.Random], list[dict[str, Any]]]
    data: dict[str, Any]
    config: dict[str, Any]
    metric: str
    falls: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    def values(self, root: Path) -> dict[str, Any]:
        """Write the rows, and return the configuration."""
        rows = self.write(random.Random(1))
        (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        args = {"path": "rows.jsonl", "tokenizer": "tokenizer", **self.data.get("args", {})} if rows else {}
        return {
            "model": {"use": "transformers", "args": {"config": self.config}},
            "data": {**self.data, "args": args},
            "loader": {"batch_size": 16},
            "optimizer": {"learning_rate": 1e-2},
            "training": {"epochs": 2},
            "deployment": {"formats": ["safetensors"]},
            "checkpoints": {"checkpoint_every_n_steps": 2},
            "logging": {"tensorboard": False},
            **self.more,
        }


def tagged(draw: random.Random) -> list[dict[str, Any]]:
    """Sentences with names of persons and of places among other words."""
    rows = []
    for _ in range(200):
        words = draw.choices(WORDS[:12], k=draw.randint(2, 6))
        tags = ["O"] * len(words)
        for kind, names in draw.sample((("PER", NAMES[::2]), ("LOC", NAMES[1::2])), k=draw.randint(1, 2)):
            words += [draw.choice(names), "sees"]
            tags += [f"B-{kind}", "O"]
        rows.append({"tokens": words, "tags": tags})
    return rows


def sentences(draw: random.Random) -> list[dict[str, Any]]:
    """Sentences in which a word tells the next one."""
    rows = []
    for _ in range(160):
        start = draw.randrange(len(WORDS))
        rows.append({"text": " ".join((WORDS * 3)[start : start + draw.randint(6, 14)])})
    return rows


def reversals(draw: random.Random) -> list[dict[str, Any]]:
    """Texts, and the same words in the order of WORDS."""
    rows = []
    for _ in range(200):
        words = draw.sample(WORDS[:8], k=draw.randint(2, 4))
        rows.append({"text": " ".join(words), "target": " ".join(sorted(words, key=WORDS.index))})
    return rows


def questions(draw: random.Random) -> list[dict[str, Any]]:
    """Contexts with one name, which is the answer."""
    rows = []
    for _ in range(300):
        words = draw.choices(WORDS[:12], k=draw.randint(3, 9))
        name = draw.choice(NAMES)
        words.insert(draw.randrange(len(words)), name)
        rows.append({"question": "the old cat", "context": " ".join(words), "answers": name})
    return rows


def choices(draw: random.Random) -> list[dict[str, Any]]:
    """A name among words is the right choice."""
    rows = []
    for _ in range(200):
        found, right = draw.sample(WORDS, k=3), draw.randrange(3)
        found[right] = draw.choice(NAMES)
        rows.append({"question": f"the {draw.choice(WORDS)} sees", "choices": found, "answer": right})
    return rows


PACKED = Case(
    sentences, {"use": "jsonl", "args": {"text": "text", "packed": True, "block_size": 48}},
    {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}, "perplexity",
    falls=True, more={"loss": "next_token", "metrics": ["perplexity"], "loader": {"batch_size": 2}},
)  # fmt: skip
CASES = {
    "token_classification": Case(
        tagged, {"use": "token_classification"}, BERT, "entity_f1", more={"metrics": ["entity_f1", "accuracy"]}
    ),
    "masked_lm": Case(
        sentences, {"use": "jsonl", "args": {"text": "text", "masked": 0.2, "block_size": 32, "tokenizer": "bpe:300"}},
        BERT, "perplexity", falls=True, more={"loss": "masked_token", "metrics": ["perplexity"]},
    ),
    "seq2seq": Case(
        reversals, {"use": "seq2seq", "args": {"max_length": 32}}, T5, "perplexity",
        falls=True, more={"loss": "next_token", "metrics": ["perplexity", "rouge_l"]},
    ),
    "question_answering": Case(
        questions, {"use": "question_answering", "args": {"max_length": 16, "stride": 2}}, BERT, "exact_match",
        more={"metrics": ["exact_match", "span_f1"]},
    ),
    "multiple_choice": Case(choices, {"use": "multiple_choice"}, BERT, "accuracy", more={"metrics": ["accuracy"]}),
    "causal_lm": PACKED,
    "image_classification": Case(
        lambda _: [], {"use": "digits"}, {"model_type": "vit", "patch_size": 2, **SMALL}, "accuracy",
        more={"metrics": ["accuracy"], "training": {"epochs": 2}, "loader": {"batch_size": 64}},
    ),
}  # fmt: skip
