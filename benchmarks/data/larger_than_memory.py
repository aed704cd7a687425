"""A table of 8 GB in eight Parquet files, trained on by a worker that may hold 2 GiB.

The bound is RLIMIT_DATA, which the kernel enforces on what a process allocates (heap, anonymous and private writable
memory): an allocation above it fails, and so does the run. It does not count pages of files, which the system takes
back when others need them. The peak is that of anonymous resident memory, sampled. In order: digests of the files,
conversion and first look (one process); a run of one epoch; the same run killed within its epoch and resumed,
compared with it bit by bit. Prints, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
COLUMNS = 50
FILES = 8
LIMIT_BYTES = 2 << 30
FULL_BYTES, QUICK_BYTES = 8 * 10**9, 2 * 10**8
SAMPLED_SECONDS = 0.02
EVERY_STEPS = 20
"""Between checkpoints within the epoch."""
GIB, MIB = 2**30, 2**20


def write_files(folder: Path, total_bytes: int) -> int:
    """Write a table of so many bytes in FILES files, some rows at a time; return its rows."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = total_bytes // (COLUMNS * 4 + 1)
    generator = np.random.default_rng(0)
    names = [f"f{number}" for number in range(COLUMNS)]
    weights = generator.standard_normal(COLUMNS, dtype=np.float32)
    drawn = generator.standard_normal((1 << 17, COLUMNS), dtype=np.float32)
    schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
    bounds = np.linspace(0, rows, FILES + 1).astype(int)
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        with parquet.ParquetWriter(
            folder / f"part-{number}.parquet", schema, compression="none", use_dictionary=["y"]
        ) as writer:
            for start in range(first, last, len(drawn)):
                inputs = drawn[: last - start] + np.float32(start / rows)  # other rows, sooner than drawn ones
                classes = (inputs @ weights > 0).astype(np.int8)
                writer.write_table(pa.table([*inputs.T, classes], schema=schema))
    return int(rows)


def drop_pages(folder: Path) -> None:
    """Let the system forget what it holds of the files, so that they are read from the disk."""
    for path in folder.glob("*.parquet"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def limited(work: str, *arguments: str, mapped_from: int | None) -> subprocess.Popen[bytes]:
    """Start a piece of work in a process of its own, which may hold LIMIT_BYTES."""
    command = [sys.executable, "-P", __file__, "--work", work, *arguments]
    environment = {**os.environ, "MAPPED_FROM": "" if mapped_from is None else str(mapped_from)}
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # its own one reserves gigabytes of addresses, which count here
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)


def watched(process: subprocess.Popen[bytes], until: Callable[[], bool] = lambda: False) -> tuple[float, float]:
    """Wait for a process, or kill it once `until` holds; return its seconds and peak of anonymous memory, bytes."""
    began, most = time.monotonic(), 0
    while process.poll() is None:
        most = max(most, _anonymous(process.pid))
        if until():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        time.sleep(SAMPLED_SECONDS)
    return time.monotonic() - began, most


def _anonymous(pid: int) -> int:
    try:
        found = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(found["RssAnon"].split()[0]) * 1024
    except (OSError, KeyError):
        return 0


def _prepare() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    if os.environ.get("MAPPED_FROM"):
        from trainwright.trainer.data import mapped

        mapped.MAPPED_FROM_BYTES = int(os.environ["MAPPED_FROM"])


def look(folder: Path, kept: Path) -> None:
    """Digest, convert and look at the table for the first time; print the seconds of each."""
    from trainwright.trainer.data import cache
    from trainwright.trainer.data.assemble import from_loaded
    from trainwright.trainer.data.first_look import FirstLook
    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources import load_source
    from trainwright.trainer.evidence.data import data_evidence

    cache.use(cache.DataCache(kept))
    clock = [time.perf_counter()]
    paths = sorted(folder.glob("*.parquet"))
    for path in paths:
        cache.current().digests.of(path)
    clock.append(time.perf_counter())
    args = {"path": "*.parquet", "target": "y"}
    loaded: Any = load_source("parquet", args, folder, SplitSection())
    clock.append(time.perf_counter())
    if not loaded.samples.is_mapped:
        raise RuntimeError("the table was read into memory")
    looks = FirstLook(kept.with_name("looks"), reads=False)
    evidence = data_evidence(from_loaded(loaded, SplitSection(), source="parquet", args=args, looks=looks), folder)
    clock.append(time.perf_counter())
    seconds = dict(zip(("digest", "conversion", "look"), np.diff(clock).round(2).tolist(), strict=True))
    print(json.dumps({**seconds, "fingerprint": evidence.fingerprint}))


def make_run(place: Path, folder: Path, kept: Path) -> Any:
    """Return the directory of a run of one epoch over the table, which planning's smoke run would have validated."""
    from trainwright.trainer.config import config_digest, parse_config
    from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification

    config = parse_config(
        {
            "model": {"use": "mlp", "args": {"hidden": [32]}},
            "data": {"use": "parquet", "args": {"path": "*.parquet", "target": "y"}},
            "loader": {"batch_size": 8192},
            "training": {"epochs": 1},
            "checkpoints": {"checkpoint_every_n_steps": EVERY_STEPS},
            "metrics": ["accuracy"],
        }
    )
    specification = RunSpecification(
        run_id="large", project="bench", kind=RunKind.BASELINE, config=config, config_digest=config_digest(config),
        code_root=str(folder), data_cache=str(kept), data_cache_bytes=100 * GIB,
        first_looks=str(kept.with_name("looks")), validated_by="smoke-large",
    )  # fmt: skip
    place.mkdir(parents=True)
    return RunDirectory.create(place / "large", specification)


def train(run: Path) -> int:
    """Be the worker of a run."""
    from trainwright.trainer import worker
    from trainwright.trainer.run import RunDirectory
    from trainwright.trainer.run.environment import launch_environment

    directory = RunDirectory(run)
    os.environ.update(launch_environment(directory.specification().config))
    log = os.open(directory.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    return worker.main([str(run)])


def _finish(run: Any, mapped_from: int | None) -> tuple[float, float]:
    found = watched(limited("train", str(run.path), mapped_from=mapped_from))
    if run.status().state.value != "completed":
        raise RuntimeError(f"{run.status().state}: {run.log.read_text()[:3000]}")
    return found


def _kill(run: Any, mapped_from: int | None) -> bool:
    """Work on a run and kill it after its second checkpoint within the epoch; return whether that was done."""
    from trainwright.trainer.checkpoints.index import list_checkpoints

    def is_far() -> bool:
        found = list_checkpoints(run)
        return bool(found) and found[-1].step >= 2 * EVERY_STEPS

    watched(limited("train", str(run.path), mapped_from=mapped_from), is_far)
    return bool(run.status().state.value != "completed")


def measure(quick: bool = False, total_bytes: int = FULL_BYTES) -> dict[str, float]:
    """Return the figures; of a table of 200 MB with `quick`, which is mapped from 1 MiB on."""
    with _space() as place:
        return _measured(place, QUICK_BYTES if quick else total_bytes, MIB if quick else None)


def _measured(place: Path, total_bytes: int, mapped_from: int | None) -> dict[str, float]:
    folder, kept = place / "table", place / "cache"
    folder.mkdir()
    rows = write_files(folder, total_bytes)
    drop_pages(folder)
    looking = limited("look", str(folder), str(kept), mapped_from=mapped_from)
    _, look_peak = watched(looking)
    told = looking.stdout.read().splitlines() if looking.stdout is not None else []
    if looking.returncode or not told:
        raise RuntimeError(f"the first look ended with {looking.returncode}")
    seconds = json.loads(told[-1])
    print(f"{rows:,} rows; first look {seconds}, peak {look_peak / MIB:.0f} MiB", flush=True)
    whole = make_run(place / "whole", folder, kept)
    run_seconds, run_peak = _finish(whole, mapped_from)
    print(f"run {run_seconds:.0f} s, epoch {_epoch_seconds(whole):.0f} s, peak {run_peak / MIB:.0f} MiB", flush=True)
    killed = make_run(place / "killed", folder, kept)
    kills = int(_kill(killed, mapped_from))
    _finish(killed, mapped_from)
    sys.path.insert(0, str(HERE.parent / "resume"))
    from comparing import differences

    return {
        "rows": rows,
        "source_gb": round(sum(path.stat().st_size for path in folder.glob("*.parquet")) / 1e9, 2),
        "limit_mib": LIMIT_BYTES / MIB,
        "digest_seconds": seconds["digest"],
        "digest_gb_per_second": round(total_bytes / 1e9 / max(seconds["digest"], 1e-9), 2),
        "conversion_seconds": seconds["conversion"],
        "look_seconds": seconds["look"],
        "epoch_seconds": round(_epoch_seconds(whole), 1),
        "run_seconds": round(run_seconds, 1),
        "look_peak_mib": round(look_peak / MIB),
        "run_peak_mib": round(run_peak / MIB),
        "kills": kills,
        "resumed_equal": int(not differences(killed, whole)),
    }


def _epoch_seconds(run: Any) -> float:
    """Return the seconds of the epoch's training, waiting for data included."""
    return float((run.evidence("summary") or {})["train_seconds"])


@contextmanager
def _space() -> Iterator[Path]:
    """Yield a folder beside this repository's, with room for twice the table, that is deleted at the end."""
    place = Path(tempfile.mkdtemp(prefix="trainwright-large-", dir=os.environ.get("BENCH_SPACE")))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main() -> None:
    """Run the measurement and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gigabytes", type=float, default=FULL_BYTES / 1e9, help="of the table, at least 1.1")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.work:
        print(json.dumps(measure(arguments.quick, int(arguments.gigabytes * 1e9))))
        return
    _prepare()
    name, *paths = arguments.work
    if name == "look":
        look(*map(Path, paths))
    else:
        sys.exit(train(Path(paths[0])))


if __name__ == "__main__":
    main()
