"""Memory, estimated without allocating anything and measured: the errors.

Each pair is estimated in one process and measured in another (measure.py says how, and why that is another measure).
With `--time` the same of seconds (times.py).
The last line is one JSON object: `pairs`, `worst_percent` (largest distance from the measured peak), `below` (estimates
under it). `--write` keeps those figures where the estimator reads its own error (trainer/estimation/measured.json).
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from kernels import compare
from measure import measure
from pairs import QUICK, Pair, pairs, write_data
from runs import in_forks
from times import compare_times

from trainwright.trainer.config import parse_config
from trainwright.trainer.estimation.memory import MEASURED, estimate

GOAL_PERCENT = 3.0
MAX_MEASURES = 8


def main() -> None:
    """Estimate, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few pairs")
    parser.add_argument("--only", help="pairs whose name contains this")
    parser.add_argument("--write", action="store_true", help="keep the figures as the estimator's measured error")
    parser.add_argument("--time", action="store_true", help="seconds instead of memory")
    parser.add_argument("--kernels", type=int, metavar="COUNT", help="convolutions of drawn shapes instead of pairs")
    given = parser.parse_args()
    if given.kernels:
        print(json.dumps(compare(given.kernels)))
        return
    chosen = [pair for pair in pairs() if given.only is None or given.only in pair.name]
    chosen = [pair for pair in chosen if not given.quick or pair.name in QUICK]
    import_once()
    if given.time:
        print(json.dumps(compare_times(chosen)))
        return
    print("| model / strategy | measured MiB | estimated MiB | error % | peak in | s |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        errors = [error for pair in chosen if (error := _error(pair, folder)) is not None]
    outside = [abs(error) for error in errors if not 0 <= error <= GOAL_PERCENT]
    result = {
        "pairs": len(errors),
        "worst_percent": round(max((abs(error) for error in errors), default=0.0), 2),
        "below": sum(error < 0 for error in errors),
        "outside": len(outside),
        "mean_percent": round(sum(map(abs, errors)) / max(len(errors), 1), 2),
        "failed": len(chosen) - len(errors),
    }
    if given.write and not result["failed"]:
        kept = {"date": dt.datetime.now(tz=dt.UTC).date().isoformat(), "command": "make bench-memory", **result}
        MEASURED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


def import_once() -> None:
    """Import what every fork needs; one thread, for a pool of threads does not survive a fork."""
    import torch
    import torch._dynamo
    import transformers

    torch.set_num_threads(1)
    for name in (
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "T5ForConditionalGeneration",
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
    ):
        getattr(transformers, name)


def _error(pair: Pair, folder: Path) -> float | None:
    """Estimate and measure a pair; return the estimate's distance from the measured peak, in percent of it."""
    started = time.perf_counter()
    estimated = _estimated(pair, folder)
    seconds = time.perf_counter() - started
    measured = _measured(pair, folder)
    if estimated is None or measured is None:
        print(f"| {pair.name} | {'no estimate' if estimated is None else 'not measured'} | | | | |", flush=True)
        return None
    true, memory = measured["peak_bytes"], estimated["memory"]
    error = 100 * (memory["peak_bytes"] / true - 1)
    print(
        f"| {pair.name} | {true / 2**20:.1f} | {memory['peak_bytes'] / 2**20:.1f} | {error:+.2f} | "
        f"{memory['peak_phase']} | {seconds:.0f} |",
        flush=True,
    )
    return error


def _estimated(pair: Pair, folder: Path) -> dict[str, Any] | None:
    def work(_: int) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as own:
            return estimate(parse_config(pair.config), folder, Path(own)).as_dict()

    return in_forks(work)


def _measured(pair: Pair, folder: Path) -> dict[str, Any] | None:
    """Return the measure of the first process; again where the allocator's reports were not whole."""
    processes = int(pair.config.get("distributed", {}).get("processes", 1))
    for _ in range(MAX_MEASURES):
        with tempfile.TemporaryDirectory() as meeting:
            store = str(Path(meeting) / "store") if processes > 1 else None
            found = in_forks(lambda rank, at=store: measure(pair.config, folder, rank, at), processes)
        if found is None or found["is_whole"] or processes == 1:
            return found
    return None


if __name__ == "__main__":
    main()
