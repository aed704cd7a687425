"""Real text that every Python comes with, and tiny models of the Transformers library for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

TOPICS = ("compound", "debugger", "string-methods", "formatstrings")
SIZES: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 48,
    "initializer_range": 0.1,
}


def sentences() -> list[dict[str, str]]:
    """Return sentences of four sections of the Python manual: 896, of which the largest section has 376."""
    from pydoc_data.topics import topics

    found = []
    for topic in TOPICS:
        text = re.sub(r"\s+", " ", topics[topic])
        kind = "language" if topic in TOPICS[:2] else "strings"
        parts = [part for part in re.split(r"(?<=[.:])\s+", text) if len(part) > 40]
        found += [{"sentence": part, "section": topic, "kind": kind} for part in parts]
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A code root with sentences.jsonl and a tokenizer of whole words made from them."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    rows = sentences()
    (tmp_path / "sentences.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))  # noqa: S106 - a token of text  # type: ignore[call-arg]
    words.normalizer = normalizers.Lowercase()  # type: ignore[assignment]
    words.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    words.train_from_iterator(
        [row["sentence"] for row in rows], trainers.WordLevelTrainer(vocab_size=800, special_tokens=special)
    )
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(tmp_path / "tokenizer")
    return tmp_path


@pytest.fixture
def classify() -> dict[str, Any]:
    """A tiny BERT that tells from which section a sentence is."""
    return {
        "model": {"use": "transformers", "args": {"config": SIZES}},
        "data": {
            "use": "jsonl",
            "args": {
                "path": "sentences.jsonl",
                "text": "sentence",
                "target": "section",
                "tokenizer": "tokenizer",
                "max_length": 48,
            },
        },
        "metrics": ["accuracy"],
        "loader": {"batch_size": 32},
        "optimizer": {"learning_rate": 1e-2},
        "training": {"epochs": 4},
        "logging": {"tensorboard": False},
    }


@pytest.fixture
def saved(project: Path, classify: dict[str, Any]) -> dict[str, Any]:
    """A configuration that starts from a folder with a tiny BERT in it, of which the head has other classes."""
    import torch
    from transformers import AutoModelForSequenceClassification, BertConfig

    sizes = {name: value for name, value in classify["model"]["args"]["config"].items() if name != "model_type"}
    torch.manual_seed(7)
    model = AutoModelForSequenceClassification.from_config(BertConfig(vocab_size=800, num_labels=2, **sizes))
    model.save_pretrained(project / "bert")
    return {**classify, "model": {"use": "transformers", "args": {"path": "bert"}}}
