"""Graphs: small molecules-like graphs in JSON lines; the class is about how they are linked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, write_lines, write_text

GRAPHS, KINDS = 1200, ("C", "N", "O", "S")
NOTE = """\
graphs.jsonl: one graph per line
  atoms  letters
  bonds  pairs of atom indices, undirected
  active 1 if the lab saw an effect
Largest graph: 18 atoms. Test the model on graphs it has not seen, please.
"""
CODE = '''\
"""Plain message passing, no PyG needed."""
import torch
from torch import nn


class GraphNet(nn.Module):
    # x (batch, atoms, kinds) one-hot and zero where there is no atom, adj (batch, atoms, atoms)
    def __init__(self, kinds=4, hidden=32, rounds=3):
        super().__init__()
        self.embed = nn.Linear(kinds, hidden)
        self.rounds = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(rounds))
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x, adj):
        mask = x.sum(-1, keepdim=True)
        h = torch.relu(self.embed(x)) * mask
        for layer in self.rounds:
            h = torch.relu(layer(torch.cat([h, adj @ h], -1))) * mask
        return self.out(torch.cat([h.sum(1), h.amax(1)], -1))
'''


def lay_out(folder: Path) -> None:
    """Write random graphs; active are those where an N has a neighbour O whose other neighbour is no C."""
    draw, graphs = draws("molecules"), []
    for _ in range(GRAPHS):
        size = int(draw.integers(7, 19))
        atoms = draw.choice(KINDS, size, p=[0.55, 0.17, 0.2, 0.08])
        bonds = [(int(draw.integers(max(0, atom - 4), atom)), atom) for atom in range(1, size)]
        bonds += [(int(one), int(two)) for one, two in draw.integers(0, size, (2, 2)) if one != two]
        pairs = {(atoms[one], atoms[two]) for one, two in [*bonds, *((two, one) for one, two in bonds)]}
        active = (("N", "O") in pairs) != (draw.random() < 0.03)
        order = draw.permutation(size)  # atoms come in no order
        place = np.argsort(order)
        moved = sorted((int(place[one]), int(place[two])) for one, two in set(bonds))
        graphs.append({"atoms": "".join(atoms[order]), "bonds": moved, "active": int(active)})
    write_lines(folder / "graphs.jsonl", graphs)
    write_text(folder, {"README": NOTE, "gnn.py": CODE})


def truth(folder: Path) -> list[Array]:
    """Return whether each graph is active."""
    lines = (folder / "graphs.jsonl").read_text(encoding="utf-8").splitlines()
    return [np.array([json.loads(line)["active"] for line in lines])]


TASK = Task(
    name="molecules",
    field="graph data, user code",
    sentence="Predict `active` for the graphs in graphs.jsonl with the network in gnn.py (you may change its sizes): "
    "accuracy of at least 0.88 on graphs it has not seen, as one exported file.",
    goal=Goal("accuracy", 0.88),
    lay_out=lay_out,
    truth=truth,
)
