"""A small task of control: a cart that keeps its pole upright, in plain Python, and a policy that imitates a rule."""

from __future__ import annotations

from typing import Any

CODE = '''\
import math
import random

import numpy
import torch

MAX_STEPS = 200


def step(state, right):
    """One fiftieth of a second of the cart and its pole (Barto, Sutton and Anderson 1983)."""
    place, speed, angle, turning = state
    push, sine, cosine = (10.0 if right else -10.0), math.sin(angle), math.cos(angle)
    part = (push + 0.05 * turning**2 * sine) / 1.1
    bend = (9.8 * sine - cosine * part) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    move = part - 0.05 * bend * cosine / 1.1
    return place + 0.02 * speed, speed + 0.02 * move, angle + 0.02 * turning, turning + 0.02 * bend


def balanced(program, seed):
    """Steps until the pole falls."""
    draws = random.Random(seed)
    state = tuple(draws.uniform(-0.05, 0.05) for _ in range(4))
    for count in range(MAX_STEPS):
        if abs(state[0]) > 2.4 or abs(state[2]) > 0.21:
            return count
        state = step(state, program(numpy.array([state]))[0].argmax() == 1)
    return MAX_STEPS


def states(rows=400):
    """States, with what a rule of three numbers would do."""
    draws = torch.Generator().manual_seed(0)
    cells = torch.rand(rows, 4, generator=draws) * 0.4 - 0.2
    return torch.utils.data.TensorDataset(cells, (cells[:, 2] + 0.5 * cells[:, 3] + 0.1 * cells[:, 1] > 0).long())


def always_right(cells):
    return numpy.tile([0.0, 1.0], (len(cells), 1))
'''
GOAL = {"metric": "balanced", "direction": "maximize", "target": 100.0}
CONFIG: dict[str, Any] = {
    "code_root": "code",
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "pole.py:states", "split": {"test": 0.2}},
    "metrics": ["accuracy", {"use": "pole.py:balanced", "episodes": 60}],
    "evaluation_gate": {"reference": "pole.py:always_right"},
    "optimizer": {"learning_rate": 0.05},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}
