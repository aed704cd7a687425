"""Facts that generated files need: `python -P -m trainwright.trainer.jobs.generation FOLDER`.

Reads `order.json` (a configuration of a text classifier, code root, TrainingArguments), leaves `report.json`: the rows
of each split as a run divides them, classes and their weights, versions, and whether the arguments can be constructed.
"""

from __future__ import annotations

import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.data.sources import open_source
from trainwright.trainer.data.sources.tables import Texts
from trainwright.trainer.jobs.answering import answer
from trainwright.trainer.losses import built_in_loss

PACKAGES = ("torch", "transformers", "accelerate", "peft", "numpy", "pyarrow", "safetensors", "bitsandbytes")
OF_A_GPU = ("bf16", "fp16", "tf32")
"""Arguments that TrainingArguments refuses on a machine without a GPU: the script leaves them out there too."""


def main(folder: Path) -> int:
    """Answer as ordered. Returns the process's exit code."""
    return answer(folder, _facts, remedy="Plan without write_files; create_project, then a smoke run.")


def _facts(order: dict[str, Any]) -> dict[str, Any]:
    config, root = parse_config(order["config"]), Path(order["code_root"])
    return {"arguments": _constructed(order["arguments"]), "versions": _versions(), **_divided(config, root)}


def _constructed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments after constructing TrainingArguments with them. Raises ConfigurationError."""
    import torch
    from transformers import TrainingArguments

    given = dict(values)
    if not torch.cuda.is_available():
        given = {name: value for name, value in given.items() if name not in OF_A_GPU} | {"use_cpu": True}
    try:
        with tempfile.TemporaryDirectory() as folder:
            TrainingArguments(output_dir=folder, **given)
    except (TypeError, ValueError, ImportError) as error:
        raise ConfigurationError(
            f"transformers {version('transformers')} does not take the planned arguments: {str(error)[:200]}",
            remedy="Plan without write_files, or install the tested version (constraints.txt).",
        ) from error
    return values


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            continue
    return found


def _divided(config: TrainingConfig, root: Path) -> dict[str, Any]:
    """Return the rows of each split as a run has them, with classes and their weights."""
    import torch

    from trainwright.trainer.assembly.target import wanted_target
    from trainwright.trainer.data.fingerprint import sample_digest
    from trainwright.trainer.data.sources.reading import Reading
    from trainwright.trainer.data.sources.targets import read_targets
    from trainwright.trainer.data.splits import split_indices

    assert config.data is not None, "a plan has data"  # noqa: S101
    table = open_source(config.data.use, config.data.args).for_loss(wanted_target(config))
    assert isinstance(table, Texts), "a plan for texts"  # noqa: S101
    files = table.files(root)
    cells = Reading(table, files).cells()
    targets, names = read_targets(cells, table.targets, table.asked)
    digests = [sample_digest(text) for text in cells.column(table.text, "data.args.text")]
    rows = split_indices(digests, None if names is None else targets, config.data.split)
    weights = None
    if config.loss == "class_balanced" and names is not None:
        counts = torch.bincount(torch.from_numpy(targets[rows["train"]]), minlength=len(names))
        measure = built_in_loss("class_balanced", {}).measure
        fitted = measure(counts) if measure is not None else None
        weights = fitted.weights.tolist() if fitted is not None and fitted.weights is not None else None
    return {
        "splits": {name: [int(row) for row in found] for name, found in rows.items() if len(found)},
        "classes": names,
        "class_weights": weights,
        "files": [path.resolve().relative_to(root.resolve()).as_posix() for path in files],
        "reading": table.reading(files[0]),
    }


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    sys.exit(code)
