"""An `accelerate` script: a GRU reads reviews; the script is one long main with its own loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, write_lines, write_text

REVIEWS = 1600
GOOD = ("great", "lovely", "quick", "tasty", "friendly", "clean", "fair", "warm")
BAD = ("slow", "cold", "rude", "dirty", "bland", "loud", "pricey", "stale")
THINGS = ("service", "soup", "waiter", "table", "terrace", "bill", "pizza", "music", "coffee", "bread")
CODE = '''\
"""accelerate launch train.py --data reviews.jsonl"""
import argparse
import json
import random

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reader(nn.Module):
    def __init__(self, vocab, dim=32, hidden=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, 2)

    def forward(self, ids):
        out, _ = self.gru(self.emb(ids))
        return self.fc(out.amax(dim=1))


def load(path, max_len=24):
    rows = [json.loads(line) for line in open(path)]
    words = sorted({w for r in rows for w in r["text"].split()})
    index = {w: i + 2 for i, w in enumerate(words)}
    ids = torch.zeros(len(rows), max_len, dtype=torch.long)
    for i, r in enumerate(rows):
        for j, w in enumerate(r["text"].split()[:max_len]):
            ids[i, j] = index.get(w, 1)
    labels = torch.tensor([r["stars"] >= 4 for r in rows]).long()
    return ids, labels, len(index) + 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="reviews.jsonl")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    torch.manual_seed(0)
    ids, labels, vocab = load(args.data)
    order = list(range(len(ids)))
    random.Random(0).shuffle(order)
    cut = int(0.8 * len(order))
    train = TensorDataset(ids[order[:cut]], labels[order[:cut]])
    dev = TensorDataset(ids[order[cut:]], labels[order[cut:]])
    model = Reader(vocab)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train_dl, dev_dl = DataLoader(train, batch_size=16, shuffle=True), DataLoader(dev, batch_size=64)
    model, optimizer, train_dl, dev_dl = accelerator.prepare(model, optimizer, train_dl, dev_dl)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_dl:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        right = total = 0
        for x, y in dev_dl:
            with torch.no_grad():
                right += (model(x).argmax(1) == y).sum().item()
                total += len(y)
        accelerator.print(f"epoch {epoch} dev acc {right / total:.4f}")
        if right / total > best:
            best = right / total
            accelerator.save(accelerator.unwrap_model(model).state_dict(), "best.pt")


if __name__ == "__main__":
    main()
'''


def lay_out(folder: Path) -> None:
    """Write reviews whose stars count good and bad words, where `not` and `but` turn them."""
    draw, rows = draws("reviews"), []
    for number in range(REVIEWS):
        words, score = [], 0.0
        for _ in range(int(draw.integers(2, 5))):
            good, turned = draw.random() < 0.5, draw.random() < 0.3
            value = str(draw.choice(GOOD if good else BAD))
            words += [str(draw.choice(["the", "our", "their"])), str(draw.choice(THINGS)), "was"]
            words += ["not"] * turned + [value]
            score += (1 if good else -1) * (-1 if turned else 1)
        stars = int(np.clip(round(3.0 + score + draw.normal(0, 0.2)), 1, 5))
        rows.append({"id": number, "text": " ".join(words), "stars": stars})
    write_lines(folder / "reviews.jsonl", rows)
    write_text(folder, {"train.py": CODE, "requirements.txt": "torch\naccelerate\n"})


def truth(folder: Path) -> list[Array]:
    """Return whether a review has four stars or more, as the script's labels are."""
    lines = (folder / "reviews.jsonl").read_text(encoding="utf-8").splitlines()
    return [np.array([json.loads(line)["stars"] >= 4 for line in lines]).astype(int)]


TASK = Task(
    name="reviews_accelerate",
    field="an accelerate script",
    sentence="train.py (accelerate) reports the dev accuracy of its best epoch, which flatters. Train the same network "
    "on the same data so that I get an honest figure on reviews used for nothing, at least 0.9, in a run that can be "
    "killed and goes on, and an exported model. Reuse load() and Reader of train.py.",
    goal=Goal("accuracy", 0.9),
    lay_out=lay_out,
    truth=truth,
)
