"""Support tickets of three queues, generated, and a tiny encoder with its own tokenizer in a folder."""

from __future__ import annotations

import csv
import random
from pathlib import Path

QUEUES = {
    "billing": "invoice charge refund card payment", "technical": "crash error login screen update",
    "shipping": "parcel late tracking address courier",
}  # fmt: skip
COMMON = "please help me with my order since yesterday it does not work as promised".split()  # noqa: SIM905
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "max_position_embeddings": 128,
}  # fmt: skip


def write_tickets(path: Path, rows: int = 180) -> list[str]:
    """Write tickets of three queues as a CSV; return their texts."""
    draw = random.Random(0)
    found = []
    for number in range(rows):
        queue = list(QUEUES)[number % 3]
        other = draw.choice(list(QUEUES.values())).split()  # some words of any queue: not all tickets are clear
        own = draw.choices(QUEUES[queue].split(), k=3) + draw.choices(other, k=2)
        own += draw.choices(COMMON, k=draw.randint(4, 14))
        draw.shuffle(own)
        found.append((number, " ".join(own) + f" {number}", queue))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "body", "queue"), *found])
    return [text for _, text, _ in found]


def write_model(folder: Path, texts: list[str]) -> None:
    """Save a tiny encoder, with a tokenizer of whole words made from the texts."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    words = Tokenizer(models.WordLevel(unk_token=special["unk_token"]))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=list(special.values())))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **special)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    config = BertConfig(vocab_size=len(tokenizer), num_labels=len(QUEUES), **SIZES)
    BertForSequenceClassification(config).save_pretrained(folder)
