"""The same training in raw PyTorch, without any line of ours: prints each loss and gradient norm as hex.

Run `python raw_loop.py` with PYTHONHASHSEED=0 OMP_NUM_THREADS=1. test_raw_loop.py holds the engine to these bits.
"""

import math
import random
import sys

import numpy as np
import torch
from torch import nn

SEED, EPOCHS, BATCH, RATE, WARMUP = 42, 3, 16, 2e-3, 3


def make_data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 10, generator=generator)
    return torch.utils.data.TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def make_model():
    return nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))


def build(config, context):  # what the engine is given: the same data and model
    return {"model": make_model(), "train": make_data(200, 1), "validation": make_data(50, 2)}


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    model, data = make_model(), make_data(200, 1)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2]},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.01)
    total, step = EPOCHS * math.ceil(len(data) / BATCH), 0
    for epoch in range(EPOCHS):
        order = np.random.default_rng([SEED, epoch]).permutation(len(data))
        for start in range(0, len(data), BATCH):
            x, y = data[torch.from_numpy(order[start : start + BATCH])]
            progress = (step - WARMUP) / (total - 1 - WARMUP)
            factor = (step + 1) / WARMUP if step < WARMUP else 0.5 * (1 + math.cos(math.pi * progress))
            for group in optimizer.param_groups:
                group["lr"] = RATE * factor
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            sys.stdout.write(f"{loss.item().hex()} {norm.item().hex()}\n")


if __name__ == "__main__":
    main()
