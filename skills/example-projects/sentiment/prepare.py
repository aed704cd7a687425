#!/usr/bin/env python3
"""Make data/texts.csv: short English texts, each rated by twenty people, from the source package of VADER.

    python prepare.py

The installed package has no texts, so its source is needed: vaderSentiment-3.3.2.tar.gz (2.4 MB) in this folder, else
it is downloaded there with pip, once. Without a network bring it along.

Snippets of film reviews and product reviews, newspaper editorials and tweets (Hutto & Gilbert 2014). The mean rating,
from -4 to 4, becomes a mood: negative up to -0.5, positive from 0.5, neutral between. Product reviews and editorials
were cut into sentences: those of one go to one split, by a hash of its number. Of films and tweets each text stands
alone.
"""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SDIST = "vaderSentiment-3.3.2.tar.gz"
UNAVAILABLE = 69
"""Exit status where the source cannot be had (EX_UNAVAILABLE)."""
INNER = "hutto_ICWSM_2014.tar.gz"
SOURCES = {
    "movieReviewSnippets": "film",
    "amazonReviewSnippets": "product",
    "nytEditorialSnippets": "news",
    "tweets": "tweet",
}
NEUTRAL_BELOW = 0.5
HELD_OUT = 15
"""Percent of the groups in validation, and as many in test."""


class Rated(NamedTuple):
    """A text with its mean rating."""

    text: str
    rating: float
    source: str
    group: str
    """Texts of one review or article have the same."""


def source_package(folder: Path) -> Path:
    """Return the source in a folder, where it is downloaded once with pip. Raises SystemExit UNAVAILABLE without it."""
    path = folder / SDIST
    if not path.is_file():
        command = ["-m", "pip", "download", "--no-deps", "--no-binary", "vaderSentiment", "vaderSentiment==3.3.2"]
        done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode or not path.is_file():
            lines = done.stderr.strip().splitlines()[-1:]
            words = " ".join(command[1:])
            sys.stderr.write("\n".join([*lines, f"Where there is a network: {words}; then put {SDIST} here.", ""]))
            raise SystemExit(UNAVAILABLE)
    return path


def rated_texts(sdist: Path) -> Iterator[Rated]:
    """Yield the texts of the package's four files in order."""
    with tarfile.open(sdist) as outer:
        name = next(name for name in outer.getnames() if name.endswith(INNER))
        with tarfile.open(fileobj=io.BytesIO(_content(outer, name))) as archive:
            for file, source in SOURCES.items():
                yield from _read(_content(archive, f"hutto_ICWSM_2014/{file}_GroundTruth.txt").decode(), source)


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(name)
    if found is None:
        raise SystemExit(f"{name} in the package's source is no file.")
    return found.read()


def _read(content: str, source: str) -> Iterator[Rated]:
    for line in content.splitlines():
        number, rating, text = line.split("\t")
        yield Rated(html.unescape(text).strip(), float(rating), source, f"{source}-{number.partition('_')[0]}")


def mood(rating: float) -> str:
    """Return the class of a mean rating."""
    return "neutral" if abs(rating) < NEUTRAL_BELOW else "positive" if rating > 0 else "negative"


def split_of(group: str) -> str:
    """Return the split of all texts of a group."""
    percent = int.from_bytes(hashlib.blake2b(group.encode(), digest_size=8).digest()) % 100
    return "test" if percent < HELD_OUT else "validation" if percent < 2 * HELD_OUT else "train"


def write(folder: Path, sdist: Path) -> dict[str, object]:
    """Write texts.csv, each text once, and return how many are in each split and class."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {rated.text.casefold(): rated for rated in rated_texts(sdist) if rated.text}
    rows = [(rated, mood(rated.rating), split_of(rated.group)) for rated in texts.values()]
    with (folder / "texts.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "mood", "source", "split"])
        writer.writerows((rated.text, found, rated.source, split) for rated, found, split in rows)
    counts = Counter(split for _, _, split in rows), Counter(found for _, found, _ in rows)
    return {"splits": dict(counts[0]), "moods": dict(counts[1])}


if __name__ == "__main__":
    here = Path()
    sys.stdout.write(json.dumps(write(here / "data", source_package(here))) + "\n")
