"""An image captioner: pictures of coloured shapes, a sentence each, and a decoder that writes word by word."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, write_picture, write_text

SIDE, PICTURES, WORDS = 32, 900, 8
COLORS = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (60, 80, 230), "yellow": (230, 220, 50)}
SHAPES, SIZES = ("square", "disc", "cross"), {"small": 4, "big": 7}
CODE = '''\
import json

import numpy as np
import torch
from PIL import Image
from torch import nn

PAD, BOS, EOS = 0, 1, 2
LENGTH = 8


class Vocabulary:
    def __init__(self, captions):
        self.words = ["<pad>", "<bos>", "<eos>"] + sorted({w for c in captions for w in c.split()})
        self.ids = {w: i for i, w in enumerate(self.words)}

    def encode(self, caption):
        ids = [self.ids[w] for w in caption.split()][:LENGTH - 1] + [EOS]
        return ids + [PAD] * (LENGTH - len(ids))


class Captions(torch.utils.data.Dataset):
    """picture (3, 32, 32), words fed in (LENGTH,), words wanted (LENGTH,)"""

    def __init__(self, root):
        self.root = root
        with open(f"{root}/captions.json") as f:
            self.items = sorted(json.load(f).items())
        self.vocabulary = Vocabulary([c for _, c in self.items])

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        name, caption = self.items[i]
        pixels = np.asarray(Image.open(f"{self.root}/{name}"), dtype=np.float32) / 255
        wanted = torch.tensor(self.vocabulary.encode(caption))
        fed = torch.cat([torch.tensor([BOS]), wanted[:-1]])
        return torch.from_numpy(pixels).permute(2, 0, 1), fed, wanted


class Captioner(nn.Module):
    def __init__(self, words, dim=64):
        super().__init__()
        self.see = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(),
            nn.Linear(512, dim),
        )
        self.emb = nn.Embedding(words, dim, padding_idx=PAD)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.say = nn.Linear(dim, words)

    def forward(self, picture, fed):
        out, _ = self.gru(self.emb(fed), self.see(picture)[None])
        return self.say(out)  # (batch, LENGTH, words)
'''
NOTE = """\
captions.py is from an old project; its training script is lost. <pad> must not count in the loss (ignore_index).
I judge by whole captions: right means every word up to <eos>, with the true words fed in.
"""


def lay_out(folder: Path) -> None:
    """Draw one or two shapes beside each other, and say what they are."""
    draw, captions = draws("captions"), {}
    down, across = np.mgrid[0:SIDE, 0:SIDE]
    for number in range(PICTURES):
        picture, said = draw.normal(110, 12, (SIDE, SIDE, 3)), []
        count = int(draw.integers(1, 3))
        for place in range(count):
            size, color, shape = (str(draw.choice(list(each))) for each in (SIZES, COLORS, SHAPES))
            radius = SIZES[size]
            y = int(draw.integers(radius + 1, SIDE - radius - 1))
            x = (8 if place == 0 else 23) if count == 2 else int(draw.integers(radius + 1, SIDE - radius - 1))
            far = np.abs(down - y), np.abs(across - x)
            inside = {
                "square": np.maximum(*far) <= radius,
                "disc": far[0] ** 2 + far[1] ** 2 <= radius**2,
                "cross": (np.minimum(*far) <= radius // 3) & (np.maximum(*far) <= radius),
            }[shape]
            picture[inside] = np.array(COLORS[color]) + draw.normal(0, 12, 3)
            said.append(f"{size} {color} {shape}")
        name = f"p{number:04d}.png"
        write_picture(folder / "pictures" / name, picture)
        captions[name] = " and ".join(said)
    text = json.dumps(captions, indent=0, sort_keys=True)
    write_text(folder, {"pictures/captions.json": text, "captions.py": CODE, "NOTE.txt": NOTE})


def truth(folder: Path) -> list[Array]:
    """Return the words' numbers, (pictures, WORDS), padded by 0 and, where padding is not to count, by -100."""
    captions = json.loads((folder / "pictures" / "captions.json").read_text(encoding="utf-8"))
    words = ["<pad>", "<bos>", "<eos>", *sorted({word for caption in captions.values() for word in caption.split()})]
    found = np.zeros((len(captions), WORDS), dtype=int)
    for row, (_, caption) in enumerate(sorted(captions.items())):
        ids = [*(words.index(word) for word in caption.split()), 2]
        found[row, : len(ids)] = ids
    return [found, np.where(found == 0, -100, found)]


def whole(outputs: Array, targets: Array) -> float:
    """Return the share of captions whose every word is right, from (captions, words, vocabulary) scores."""
    right = (outputs.argmax(axis=-1) == targets) | (targets <= 0)
    return float(right.all(axis=1).mean())


TASK = Task(
    name="captions",
    field="an image captioner",
    sentence="Train the captioner in captions.py on pictures/ again: at least 0.8 of the captions of unseen pictures "
    "entirely right (see NOTE.txt), as a metric of its own named whole, and show three captions it writes by itself.",
    goal=Goal("whole", 0.8),
    lay_out=lay_out,
    truth=truth,
    figure=whole,
)
