"""The official conformance suite of the protocol, run over HTTP against the product's server, in both eras.

Once against the server as it is, and once against one that the same factory makes with the tools, resources and
prompts of fixed names that many scenarios need. `expected.yaml` has what does not pass, with the reason; a scenario
that fails unlisted, or passes listed, ends `make conformance` with 1. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import yaml
from mcp.shared.exceptions import MCPDeprecationWarning
from serving import SERVERS, served
from suite import REVISIONS, Suite

EXPECTED = Path(__file__).with_name("expected.yaml")
STALE = "it passes, or is no longer there, and expected.yaml says that it fails"
SHOWN_CHARACTERS = 200


class Outcome(NamedTuple):
    """How one server fared with one revision."""

    passed: list[str]
    expected: list[str]
    unexpected: dict[str, list[str]]
    """What failed in the scenarios that should pass; or that one has passed that should not."""


def main() -> int:
    """Run, print, and return the exit status: 0 when all is as `expected.yaml` has it."""
    asked = _arguments()
    suite = Suite.of(asked.node_modules)
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the suite asks for logs, which the protocol gives up
    outcomes: dict[str, Outcome] = {}
    print(f"{'server':10}{'revision':12}{'scenarios':>10}{'passed':>8}{'expected':>10}{'unexpected':>12}", flush=True)
    for server in SERVERS:
        for revision in REVISIONS:
            outcome = _outcome(suite, server, revision)
            outcomes[f"{server}_{revision.replace('-', '_')}"] = outcome
            counts = [len(part) for part in outcome]
            print(f"{server:10}{revision:12}{sum(counts):10}{counts[0]:8}{counts[1]:10}{counts[2]:12}", flush=True)
            for scenario, reasons in outcome.unexpected.items():
                print(f"  {scenario}", *(reason[:SHOWN_CHARACTERS] for reason in reasons), sep="\n    ", flush=True)
    print(json.dumps({name: _figures(outcome) for name, outcome in outcomes.items()}))
    return 1 if any(outcome.unexpected for outcome in outcomes.values()) else 0


def _outcome(suite: Suite, server: str, revision: str) -> Outcome:
    """Run one revision against one server, each time over a workspace of its own."""
    reasons: dict[str, str] = yaml.safe_load(EXPECTED.read_text(encoding="utf-8"))[server][revision]
    with tempfile.TemporaryDirectory() as folder, served(server, Path(folder, "workspace")) as address:
        found = suite.run(address, revision, Path(folder, "results"))
    stale = {name: [STALE] for name in reasons if not found.get(name)}
    failed = {name: failures for name, failures in sorted(found.items()) if failures}
    return Outcome(
        passed=[name for name in found if name not in failed and name not in stale],
        expected=[name for name in failed if name in reasons],
        unexpected=stale | {name: failures for name, failures in failed.items() if name not in reasons},
    )


def _figures(outcome: Outcome) -> dict[str, object]:
    return {
        "scenarios": sum(len(part) for part in outcome),
        "passed": len(outcome.passed),
        "expected": len(outcome.expected),
        "unexpected": sorted(outcome.unexpected),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node-modules", type=Path, required=True, help="folder with Node and the suite in it")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
