"""The first look at two million rows of 50 numbers and a class, beside reading the file plainly.

The first look is what a run's worker does with a file before it trains: digest it, read it, look for equal rows, split,
fit the preprocessing, look for almost equal rows, fingerprint. Plain reading is polars' own reader and one matrix of
float32 from its columns (`to_numpy`); beside it the same by pyarrow, and np.load for an archive. Each measurement has a
process of its own with the machine's cores, which has looked at a small file of the same kind before, so that no
library is loaded within it; they take turns. The files are in the system's page cache. Memory is resident memory above
what the process held before. Prints a table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("npz", "csv", "parquet")
COLUMNS = 50
SMALL = 30_000
"""Rows of the file for warming up: enough for a look that draws samples."""
MIB = 2**20


def write_files(folder: Path, rows: int) -> None:
    """Write a table of so many rows as `<rows>.<kind>` in every kind."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    generator = np.random.default_rng(0)
    inputs = np.round(generator.standard_normal((rows, COLUMNS), dtype=np.float32), 4)
    targets = generator.integers(0, 3, rows)
    np.savez(folder / f"{rows}.npz", x=inputs, y=targets)
    table = pa.table({**{f"f{n}": inputs[:, n] for n in range(COLUMNS)}, "y": targets})
    parquet.write_table(table, folder / f"{rows}.parquet")
    csv.write_csv(table, folder / f"{rows}.csv")


def read_plainly(path: Path, _: Path) -> Any:
    """Read a file with polars and nothing else, as one matrix of float32; an archive with numpy."""
    import polars as pl

    if path.suffix == ".npz":
        with np.load(path) as archive:
            return archive["x"], archive["y"]
    frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    targets = frame["y"].to_numpy()
    return frame.drop("y").cast(pl.Float32).to_numpy(), targets


def read_by_pyarrow(path: Path, _: Path) -> Any:
    """Read a file with pyarrow and nothing else, as one matrix of float32; an archive with numpy."""
    from pyarrow import csv, parquet

    if path.suffix == ".npz":
        return read_plainly(path, path)
    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    matrix = np.empty((len(table), COLUMNS), dtype=np.float32)
    for number in range(COLUMNS):
        matrix[:, number] = table.column(f"f{number}").to_numpy()
    return matrix, table.column("y").to_numpy()


def look(path: Path, kept: Path, *, reads: bool) -> Any:
    """Read, split, standardise, fingerprint and check a file as a run does; return the `data` evidence."""
    from trainwright.trainer.data.assemble import from_loaded
    from trainwright.trainer.data.first_look import FirstLook
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources import load_source
    from trainwright.trainer.evidence.data import data_evidence

    kind = path.suffix[1:]
    options = {"standardize": True} if kind == "npz" else {"target": "y"}
    loaded: Any = load_source(kind, {"path": path.name, **options}, path.parent, SplitSection())
    looks = FirstLook(kept, reads=reads)
    return data_evidence(from_loaded(loaded, SplitSection(), source=kind, looks=looks), path.parent)


def first_look(path: Path, kept: Path) -> None:
    """Look at a file for the first time."""
    look(path, kept, reads=False)


def later_look(path: Path, kept: Path) -> None:
    """Look at a file of which the first look is kept."""
    if look(path, kept, reads=True).first_look != "known":
        raise RuntimeError(f"{path.name}: the first look was not kept")


def check_later(path: Path, _: Path) -> dict[str, float]:
    """Return what a later run does beside reading and standardising: digest of the file, fingerprint of its rows."""
    from trainwright.trainer.data import rows
    from trainwright.trainer.data.file_digests import file_digests
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources.arrays import Npz

    samples = Npz(path=path.name).load(path.parent, SplitSection()).samples
    begun = time.perf_counter()
    file_digests([path])
    rows.content_digest(samples)
    return {"seconds_per_gb": (time.perf_counter() - begun) / (path.stat().st_size / 1e9)}


class Mapped:
    """A data set of the user's own over memory-mapped numbers."""

    def __init__(self, path: Path) -> None:
        self.numbers = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Any:
        import torch

        return torch.tensor([float(self.numbers[index])]), index % 2


def first_step(path: Path, _: Path) -> dict[str, float]:
    """Split a large data set, record it, and fetch the first batches of an epoch."""
    from trainwright.trainer.data.assemble import from_user
    from trainwright.trainer.data.loader import BatchLoader
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.evidence.data import data_evidence

    splits = from_user(Mapped(path), SplitSection(), source="own", seed=1)
    data_evidence(splits, path.parent)
    most, before = _resident("VmHWM"), _begin_peak()
    loader = BatchLoader(splits.samples["train"], 8, seed=1, shuffle=True)
    next(loader.batches(0))
    order = _resident("VmHWM") - before
    return {"order_bytes_per_sample": order / len(loader.samples), "peak_before": most}


WORK: dict[str, Callable[[Path, Path], Any]] = {
    "plain": read_plainly,
    "pyarrow": read_by_pyarrow,
    "first": first_look,
    "later": later_look,
    "check": check_later,
    "step": first_step,
}


def _resident(name: str) -> int:
    """Return bytes of resident memory: VmRSS now, VmHWM at most."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(found[name].split()[0]) * 1024


def _begin_peak() -> int:
    """Let the peak of resident memory begin anew; return the bytes held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def work(name: str, path: Path, warm: Path) -> dict[str, float]:
    """Measure one piece of work in this process: seconds on the wall and of the processor, bytes at its peak."""
    from trainwright.trainer.data import cache

    kept = path.parent / "looks"
    cache.use(cache.DataCache(path.parent / f"cache-{os.getpid()}"))  # nothing is known of the file but by a later look
    if name == "later":
        first_look(warm, kept)  # the large file's is kept by the measurement before
    WORK[name](warm, kept)
    before, wall, processor = _begin_peak(), time.perf_counter(), time.process_time()
    result = WORK[name](path, kept)
    took = {"seconds": time.perf_counter() - wall, "processor_seconds": time.process_time() - processor}
    found = result if name in {"check", "step"} else {}
    most = max(_resident("VmHWM"), found.pop("peak_before", 0))
    return {**took, "peak_bytes": most - before, **found}


def measured(names: tuple[str, ...], path: Path, warm: Path, repetitions: int) -> dict[str, dict[str, float]]:
    """Return, for each piece of work, the medians of so many processes; the pieces take turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repetitions):
        for name in names:
            command = [sys.executable, "-P", __file__, "--work", name, str(path), str(warm)]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[name].append(json.loads(told.splitlines()[-1]))
    return {name: {key: statistics.median(one[key] for one in some) for key in some[0]} for name, some in found.items()}


def over_files(folder: Path, rows: int, repetitions: int) -> dict[str, float]:
    """Compare the first look at each kind of file with plain reading; print a row for each."""
    write_files(folder, SMALL)
    write_files(folder, rows)
    array = rows * (COLUMNS * 4 + 8)
    figures: dict[str, float] = {"rows": rows, "array_mib": round(array / MIB, 1)}
    print(f"{'file':8} {'polars s':>8} {'pyarrow':>8} {'first s':>8} {'times':>6} {'later s':>8} {'peak / plain':>14}")
    for kind in KINDS:
        files = folder / f"{rows}.{kind}", folder / f"{SMALL}.{kind}"
        found = measured(("plain", "pyarrow", "first", "later"), *files, repetitions)
        plain, first = found["plain"], found["first"]
        of_kind = {
            "plain_seconds": plain["seconds"],
            "pyarrow_seconds": found["pyarrow"]["seconds"],
            "first_look_seconds": first["seconds"],
            "first_look_times": first["seconds"] / plain["seconds"],
            "first_look_processor_times": first["processor_seconds"] / plain["processor_seconds"],
            "later_look_seconds": found["later"]["seconds"],
            "plain_peak_share": plain["peak_bytes"] / array,
            "peak_share": first["peak_bytes"] / array,
            "peak_times": first["peak_bytes"] / plain["peak_bytes"],
        }
        figures |= {f"{kind}_{name}": round(value, 2) for name, value in of_kind.items()}
        print(
            f"{kind:8} {plain['seconds']:8.2f} {found['pyarrow']['seconds']:8.2f} {first['seconds']:8.2f} "
            f"{of_kind['first_look_times']:6.2f} {of_kind['later_look_seconds']:8.2f} "
            f"{of_kind['peak_share']:6.2f} / {of_kind['plain_peak_share']:.2f}"
        )
    files = folder / f"{rows}.npz", folder / f"{SMALL}.npz"
    check = measured(("check",), *files, repetitions)["check"]["seconds_per_gb"]
    return figures | {"first_look_ratio": figures["csv_first_look_times"], "check_seconds_per_gb": round(check, 2)}


def over_samples(folder: Path, samples: int) -> dict[str, float]:
    """Measure how soon a data set of so many samples gives its first batch, and what its order holds."""
    for count in (SMALL, samples):
        np.lib.format.open_memmap(folder / f"{count}.npy", mode="w+", dtype=np.float32, shape=(count,)).flush()
    found = measured(("step",), folder / f"{samples}.npy", folder / f"{SMALL}.npy", 1)["step"]
    print(f"{samples:,} samples: first batch after {found['seconds']:.1f} s")
    return {
        "samples": samples,
        "first_step_seconds": round(found["seconds"], 1),
        "first_step_peak_mib": round(found["peak_bytes"] / MIB, 1),
        "order_bytes_per_sample": round(found["order_bytes_per_sample"], 2),
    }


def measure(quick: bool = False) -> dict[str, float]:
    """Return the figures; of a tenth of the rows and samples with `quick`."""
    share = 10 if quick else 1
    with tempfile.TemporaryDirectory(prefix="trainwright-size-") as folder:
        figures = over_files(Path(folder), 2_000_000 // share, 1 if quick else 3)
        return figures | over_samples(Path(folder), 50_000_000 // share)


def main() -> None:
    """Run the comparison and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        name, path, warm = arguments.work
        print(json.dumps(work(name, Path(path), Path(warm))))
        return
    print(json.dumps(measure(arguments.quick)))


if __name__ == "__main__":
    main()
