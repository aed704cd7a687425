"""Fuzzing of the readers: `make fuzz MINUTES=20`. No crash, no hang, no row lost without a word.

The corpus is what benchmarks/inputs writes. The last line is one JSON object; its lists name each way to fail
with the smallest input, which lies in the folder that is named.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from target import KINDS

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "inputs"))

from running import cases

MAX_SECONDS, MAX_MEMORY, MAX_BYTES = 60, 4000, 20_000
"""Of one input, of the process in MiB, of an input."""
EXECUTED = re.compile(r"number_of_executed_units: (\d+)")


def fill(corpus: Path) -> int:
    """Write the files of all inputs into the corpus, each for the readers of its ending; return how many."""
    count = 0
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            code = Path(folder) / "code"  # one writes beside it
            code.mkdir()
            case.write(code)
            for path in sorted(code.rglob("*"))[:5]:
                kinds = [
                    n for n, (_, name) in enumerate(KINDS) if path.is_file() and name.endswith(path.suffix or ".csv")
                ]
                for kind in kinds if path.is_file() and path.stat().st_size <= MAX_BYTES else []:
                    (corpus / f"{count:05d}").write_bytes(bytes([kind, count % 3]) + path.read_bytes())
                    count += 1
    return count


def main() -> int:
    """Fuzz, print, and return the exit status: 0 where nothing was found."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=20)
    asked.add_argument("--out", default="", help="folder for what is found; left out: a new one")
    options = asked.parse_args()
    out = Path(options.out or tempfile.mkdtemp(prefix="fuzz-"))
    corpus = out / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    size, executed, hangs, died, ended = fill(corpus), 0, 0, 0, time.monotonic() + 60 * options.minutes
    while (left := int(ended - time.monotonic())) > 0:
        command = [sys.executable, "-P", str(Path(__file__).with_name("target.py")), str(out), str(corpus)]
        limits = [
            f"-max_total_time={left}",
            f"-timeout={MAX_SECONDS}",
            f"-rss_limit_mb={MAX_MEMORY}",
            f"-max_len={MAX_BYTES}",
        ]
        kept = [f"-artifact_prefix={out}/", "-print_final_stats=1", "-detect_leaks=0"]
        log = subprocess.run(
            [*command, *limits, *kept], capture_output=True, text=True, errors="replace", check=False
        ).stderr
        executed += sum(map(int, EXECUTED.findall(log)))
        hangs += "ERROR: libFuzzer: timeout" in log
        died += "ERROR: libFuzzer" in log and "ERROR: libFuzzer: timeout" not in log
        if "ERROR: libFuzzer" in log or not EXECUTED.search(
            log
        ):  # a hang, a fault in C, too much memory; or no atheris
            print(log[-2000:], flush=True)
            if "ERROR: libFuzzer" not in log:
                return 1
    found = [json.loads(path.read_text()) | {"input": path.stem} for path in sorted(out.glob("*.json"))]
    crashes = [one for one in found if not one["fault"].startswith("lost")]
    lost = [one for one in found if one["fault"].startswith("lost")]
    print(
        f"found in {out}:",
        *(f"{one['fault']} ({one['kind']}, {one['bytes']} bytes, {one['input']}.bin)" for one in found),
        sep="\n",
    )
    print(
        json.dumps(
            {
                "corpus": size,
                "executed": executed,
                "crashes": len(crashes) + died,
                "hangs": hangs,
                "lost_rows": len(lost),
            }
        )
    )
    return int(bool(found or hangs or died))


if __name__ == "__main__":
    raise SystemExit(main())
