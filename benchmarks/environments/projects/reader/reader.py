"""A course's text classifier: a small BERT from a configuration, on sentences of made-up words."""

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

WORDS, LENGTH = 60, 12


class Reader(nn.Module):
    """The library's model; its answer is the logits."""

    def __init__(self, hidden=32):
        super().__init__()
        config = BertConfig(
            vocab_size=WORDS, hidden_size=hidden, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=2 * hidden, max_position_embeddings=LENGTH, num_labels=2,
        )  # fmt: skip
        self.bert = BertForSequenceClassification(config)

    def forward(self, input_ids):
        return self.bert(input_ids=input_ids).logits


def sentences():
    """Return token ids and whether the first half of the vocabulary is in the majority."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(WORDS, (480, LENGTH), generator=generator)
    return ids, ((ids < WORDS // 2).sum(dim=1) > LENGTH // 2).long()


def dataset():
    """Return them as a data set of the library `datasets`, as a course has them."""
    from datasets import Dataset

    ids, labels = sentences()
    return Pairs(Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()}).with_format("torch"))


class Pairs(torch.utils.data.Dataset):
    """Rows of a data set as pairs."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        return row["input_ids"], row["labels"]
