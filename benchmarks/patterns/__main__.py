"""The templates of skills/training-patterns on their generated data: scores over seeds, time, checkpoints, memory.

Each template is trained whole by our worker, once for each seed, from which data, base model, split and training are
drawn. Changed templates stand beside some. The last line is one JSON object: `patterns`, and for each row `metric`,
`mean`, `least` and `greatest` (the best validated value of the selection metric), `steps`, `seconds` (of a run's
training, mean), `checkpoint_mib`, and `memory_mib` as the estimator has it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "skills" / "training-patterns")]

from generate_example import PATTERNS, generate  # noqa: E402 - found by the line above
from runs import Trained, missing, template, train  # noqa: E402

SEEDS = (1, 2, 3)
QUICK = ("text_classification", "lora")
MINILM = {
    "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "vocab_size": 30522,
}  # fmt: skip
BEFORE = {"optimizer.learning_rate": 1e-12, "training.epochs": 1}
BESIDE: dict[str, dict[str, dict[str, Any]]] = {
    "continued_pretraining": {"before": BEFORE},
    "instruction_tuning": {"before": BEFORE},
    "lora": {"rank 2": {"adapter.rank": 2}},
    "distillation": {"without the teacher": {"objective": None}},
    "pretrained_minilm": {"random weights": {"model.args": {"path": None, "config": MINILM}}},
    "pretrained_forecaster": {"before": BEFORE},
}
"""Changed templates beside a template, by what is different."""
UNQUANTISED = {"model.args.quantize": None}
COLUMNS = ("metric", "mean", "least", "greatest", "steps", "seconds", "checkpoint_mib", "memory_mib")


def main() -> int:
    """Train, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two patterns, one seed, nothing beside them")
    parser.add_argument("--only", default="", help="patterns whose names contain this")
    asked = parser.parse_args()
    print(f"| pattern | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}", flush=True)
    found = {}
    for name in QUICK if asked.quick else PATTERNS:
        if asked.only not in name:
            continue
        for title, changes in _variants(name, alone=asked.quick).items():
            if (why := missing(name, changes)) is not None:
                print(f"| {title} | left out: {why} |", flush=True)
                continue
            found[title] = _figures([_trained(name, seed, changes) for seed in SEEDS[: 1 if asked.quick else None]])
            print(f"| {title} | {' | '.join(str(found[title][key]) for key in COLUMNS)} |", flush=True)
    print(json.dumps({"patterns": len(found), "figures": found}))
    return 0 if found else 1


def _variants(name: str, *, alone: bool) -> dict[str, dict[str, Any]]:
    """Return changes of a template by the title of their row, the template itself first."""
    beside = {} if alone else BESIDE.get(name, {})
    plain = {"qlora": {"qlora": {}, "qlora, not quantised": UNQUANTISED}}.get(name, {name: {}})
    return plain | {f"{name}, {difference}": changes for difference, changes in beside.items()}


def _trained(name: str, seed: int, changes: dict[str, Any]) -> Trained:
    with tempfile.TemporaryDirectory() as folder:
        generate(name, Path(folder), seed=seed)
        return train(template(name, changes, seed), Path(folder), with_memory=seed == SEEDS[0])


def _figures(runs: list[Trained]) -> dict[str, Any]:
    scores = [run.score for run in runs]
    memory = runs[0].memory_mib
    return {
        "metric": runs[0].metric,
        "mean": round(mean(scores), 4),
        "least": round(min(scores), 4),
        "greatest": round(max(scores), 4),
        "steps": runs[0].steps,
        "seconds": round(mean(run.seconds for run in runs), 1),
        "checkpoint_mib": round(runs[0].checkpoint_mib, 2),
        "memory_mib": None if memory is None else round(memory, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
