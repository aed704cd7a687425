"""The target of the fuzzing: bytes become a file, which is read, or refused in words; no row is lost without one.

`python -P benchmarks/fuzz/target.py OUT CORPUS [libFuzzer's options]` runs it under atheris until its time is up.
What is found is written into OUT, one file for each way to fail, its smallest input beside it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

KINDS = (
    ("csv", "rows.csv"), ("csv", "rows.tsv"), ("jsonl", "rows.jsonl"), ("parquet", "rows.parquet"),
    ("arrow", "rows.feather"), ("orc", "rows.orc"), ("csv", "rows.csv.gz"), ("csv", "rows.xlsx"),
    ("images", "photos/dark/odd.png"),
)  # fmt: skip
"""By the first byte of an input: source, and the file that the rest of it becomes."""
TASKS = (None, "regression", "classification")
"""By the second byte."""


def main(out: Path, corpus: Path, options: list[str]) -> None:
    """Fuzz until libFuzzer ends."""
    import atheris
    from PIL import Image

    for name in ("numpy", "polars", "pyarrow.csv", "torch"):  # before the rest is instrumented
        importlib.import_module(name)
    from trainwright.trainer import base, data

    with atheris.instrument_imports(include=[base.__name__, data.__name__]):
        from trainwright.trainer.data.sources import load_source  # noqa: F401 - to be instrumented
    place = Path(tempfile.mkdtemp(prefix="fuzzing-"))
    for label, name in enumerate(("dark", "light")):
        (place / "photos" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (8, 8), 200 * label + number).save(place / "photos" / name / f"{number}.png")
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda content: look(content, place, out))
    try:
        atheris.Fuzz()
    finally:
        shutil.rmtree(place, ignore_errors=True)


def look(content: bytes, place: Path, out: Path) -> None:
    """Read one input, and write down how it fails."""
    if len(content) < 3:
        return
    source, name = KINDS[content[0] % len(KINDS)]
    path, task = place / name, TASKS[content[1] % len(TASKS)]
    path.write_bytes(content[2:])
    try:
        fault = _lost(path, _read(source, path, place, task))
    except Exception as error:  # noqa: BLE001 - what is no error of ours is what is looked for
        fault = _fault_of(error)
    finally:
        path.unlink()
    if fault:
        _keep(out, fault, content)


def _read(source: str, path: Path, place: Path, task: str | None) -> Any:
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources import load_source

    args: dict[str, Any] = {"path": path.name, "target": "y", "task": task}
    if source == "images":
        args = {"path": "photos", "size": 8}
    return load_source(source, args, place, SplitSection())


def _fault_of(error: Exception) -> str:
    """Return how reading crashed; nothing for a refusal in words."""
    from trainwright.trainer.base.errors import ConfigurationError, DataError

    if isinstance(error, DataError | ConfigurationError):
        return "" if error.message and error.remedy else f"a refusal without words: {error!r}"
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/trainwright/" in frame.filename]
    where = f"{ours[-1].filename.rpartition('/trainwright/')[2]}:{ours[-1].lineno} {ours[-1].name}" if ours else "?"
    return f"crash: {type(error).__name__} at {where}"


def _lost(path: Path, loaded: Any) -> str:
    """Return that rows were lost, where how many there are is beyond doubt."""
    try:
        known = _rows_of(path)
    except Exception:  # noqa: BLE001 - a file that its library does not read has no number of rows
        return ""
    found = len(loaded.samples)
    return (
        f"lost rows of {path.suffix}: {'fewer' if found < known[0] else 'more'}"
        if known and not known[0] <= found <= known[1]
        else ""
    )


def _rows_of(path: Path) -> tuple[int, int] | None:
    """Return the least and the most rows that a file has; none where that depends on quotes, comments or marks."""
    content = path.read_bytes()
    if path.suffix in {".csv", ".tsv", ".jsonl"}:
        text = content.decode()
        if path.suffix != ".jsonl" and re.search(r'["#\0\x1a]|\r(?!\n)|^\ufeff|^\s*\n|^sep=', text):
            return None
        lines = [line.removesuffix("\r") for line in text.split("\n")]
        header = int(path.suffix != ".jsonl")
        return sum(bool(line.strip(" \t,;|")) for line in lines) - header, sum(bool(line) for line in lines) - header
    if path.suffix == ".parquet":
        from pyarrow import parquet

        rows = parquet.read_table(path).num_rows
        return rows, rows
    return None


def _keep(out: Path, fault: str, content: bytes) -> None:
    """Keep the smallest input of each way to fail."""
    name = hashlib.blake2b(fault.encode(), digest_size=6).hexdigest()
    kept = out / f"{name}.bin"
    if not kept.exists() or kept.stat().st_size > len(content):
        kept.write_bytes(content)
        (out / f"{name}.json").write_text(
            json.dumps({"fault": fault, "bytes": len(content), "kind": KINDS[content[0] % len(KINDS)][1]})
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
