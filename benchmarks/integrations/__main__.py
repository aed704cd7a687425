"""All that `trainwright deploy` generates, run: the service timed, the form in a browser, the database's policies.

Models of a table, a text, pictures, several numbers and one that writes are trained in seconds. The service runs in an
environment that holds what its lock file names. Prints a table and, as its last line, one JSON object:
`service_p50_ratio` (the service's median by that of the barest FastAPI application around the same program, in turns),
`session_p50_ratio` (by that of the call of ONNX Runtime alone), the times, `web_ok` (null: left out, with the reason),
`rls_tests` and `rls_mutations`.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from clients import client_faults, typed_faults  # noqa: E402 - found by the line above
from latency import figures  # noqa: E402
from policies_run import policy_figures  # noqa: E402
from programs import missing_for_web, service_python  # noqa: E402
from tests.trainer.start_a_run import make_run, start_worker  # noqa: E402
from tests.worlds.released import released  # noqa: E402
from web import faults  # noqa: E402

from trainwright.tools.integrations import deploy  # noqa: E402

ROW = {"age (years)": "41", "plan": "family", "joined": "2021-03-04", "active": "true", "remark": "called twice"}
KINDS = ("table", "text", "picture", "forecast", "writing")


def main() -> int:
    """Run, print, and return the exit status: 1 where the form or a policy is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer calls, the form of the table alone")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the forms")
    asked = parser.parse_args()
    kinds = KINDS[:1] if asked.quick else KINDS
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        parts = {kind: _deployed(base, kind) for kind in kinds}
        pythons = {kind: service_python(folder / "service" / "requirements.txt") for kind, folder in parts.items()}
        answer = figures(pythons["table"], parts["table"] / "service", ROW, *((5, 50) if asked.quick else (40, 200)))
        for name, value in answer.items():
            print(f"| {name} | {value} |", flush=True)
        wrong = client_faults(pythons["table"], parts["table"])
        answer["web_ok"] = _web(base, pythons, parts, wrong)
        answer |= policy_figures(wrong)
        if asked.pictures is not None:
            for picture in base.glob("form-*.png"):
                shutil.copy(picture, asked.pictures)
    for fault in wrong:
        print(f"WRONG {fault}", flush=True)
    answer["clients_ok"] = not any(fault.startswith("client") for fault in wrong)
    print(json.dumps(answer))
    return int(bool(wrong))


def _deployed(base: Path, kind: str) -> Path:
    """Train a model of a kind and generate all parts for it."""
    model, _ = released(base / kind, kind, make_run, lambda run: start_worker(run).wait(120))
    deploy(model, base / "parts" / kind)
    return base / "parts" / kind


def _web(base: Path, pythons: dict[str, Path], parts: dict[str, Path], wrong: list[str]) -> bool | None:
    """Add what is wrong with the forms; return whether all are right, None where they cannot be built here."""
    if (missing := missing_for_web()) is not None:
        print(f"The form is left out. Missing: {missing}", flush=True)
        return None
    before = len(wrong)
    for kind, folder in parts.items():
        asked, row = _asked(base, kind)
        found = faults(pythons[kind], folder, asked, row, base / f"form-{kind}.png")
        print(f"| form of a {kind} | {'; '.join(found) or 'right'} |", flush=True)
        wrong += [f"form of a {kind}: {fault}" for fault in found]
        wrong += typed_faults(pythons[kind], folder)
    return len(wrong) == before


def _asked(base: Path, kind: str) -> tuple[dict[str, Any], Any]:
    """Return what is entered into the form of a kind, and the row that the service should get."""
    if kind == "table":
        right = [[name, value] for name, value in ROW.items()]
        wrong = [["age (years)", "old"], *right[1:]]
        return {"right": right, "wrong": wrong, "files": [], "name": "age (years)", "told": "no finite number"}, ROW
    if kind == "text":
        words = "password account locked"
        asked = {"right": [["Text", words]], "wrong": [["Text", " "]], "files": [], "name": "text", "told": "empty"}
        return asked, {"text": words}
    if kind == "forecast":
        values = [round(0.1 * place, 1) for place in range(12)]
        asked = {"right": [["Values", json.dumps(values)]], "wrong": [["Values", "[1]"]], "files": []}
        return {**asked, "name": "values", "told": "its shape is [1]"}, {"values": values}
    if kind == "writing":
        row = {"prompt": "the bill is", "most_tokens": 20, "temperature": 0}
        right = [["Prompt", row["prompt"]], ["Tokens", "20"], ["Temperature", "0"]]
        wrong = [right[0], ["Tokens", "0"], right[2]]
        asked = {"right": right, "wrong": wrong, "files": [], "name": "most_tokens"}
        return {**asked, "told": "greater than or equal to 1"}, row
    picture = next((base / "picture" / "code" / "photos" / "light").glob("*.png"))
    torn = base / "torn.png"
    torn.write_bytes(b"no picture")
    row = {"picture": base64.b64encode(picture.read_bytes()).decode()}
    return {
        "right": [["Picture", str(picture)]], "wrong": [["Picture", str(torn)]], "files": ["Picture"],
        "name": "picture", "told": "no picture of a known format",
    }, row  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
