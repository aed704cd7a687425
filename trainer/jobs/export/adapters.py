"""Adapter of a run, alone in peft's layout and merged into the weights: both are proven against base plus adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import rows_loader
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.models.adapters.merging import merged
from trainwright.trainer.models.adapters.saved import FILES, adapter_state, write_adapter
from trainwright.trainer.models.adapters.task_types import is_of_library
from trainwright.trainer.objectives.supervised import plain_output
from trainwright.trainer.run.results import AdapterExport, Merged

FOLDER, MERGED = "adapter", "merged.safetensors"
TOLERANCE = 1e-4
"""Largest difference of outputs, times the largest output where that is above 1: merging rounds."""
STEPS_OF_TYPE = 4.0
"""The same in steps of the weights' type, where these are coarser: merging rounds every weight to bfloat16, say."""


def export_adapter(session: Session, rows: dict[str, Tensor], folder: Path) -> AdapterExport | None:
    """Write `adapter/`, and where a model is not the library's `merged.safetensors`; None without an adapter.

    Weights that would give other outputs than base plus adapter are not written, and the record says so.

    Args:
        rows: real inputs, by name where the model is called so; none: outputs cannot be compared.
    """
    section, model = session.config.adapter, session.model
    if section is None:
        return None
    base, revision = _origin(session)
    write_adapter(model, folder / FOLDER, base, revision)
    wanted, again = adapter_state(model), load_file(folder / FOLDER / FILES[1])
    same = wanted.keys() == again.keys() and all(torch.equal(value, again[name]) for name, value in wanted.items())
    found = _merged(session, rows) if section.merges else None
    if found is not None and not is_of_library(model) and found.passed is not False:
        state = {name: value.detach().clone() for name, value in merged(model).state_dict().items()}
        save_file(state, folder / MERGED, metadata={"format": "pt"})
    return AdapterExport(
        kind=section.name,
        folder=FOLDER,
        tensors=len(wanted),
        parameters=sum(value.numel() for value in wanted.values()),
        bytes=sum((folder / FOLDER / name).stat().st_size for name in FILES),
        base=base,
        revision=revision,
        base_digest=session.base.record()["digest"] if session.base.is_needed else None,
        reloaded_identical=same,
        merged_in=None if found is None else "transformers" if is_of_library(model) else MERGED,
        merged=found,
    )


def _origin(session: Session) -> tuple[str | None, str | None]:
    """Return where the frozen weights come from, and the revision of a hub's; None: from the run's seed or code."""
    args = session.config.model.args if session.config.model is not None else {}
    return args.get("path") or args.get("hub"), args.get("revision")


def _merged(session: Session, rows: dict[str, Tensor]) -> Merged:
    """Compare the merged weights' outputs with those of base plus adapter, on real rows."""
    if not rows:
        return Merged()
    model, prepare = session.model, session.work.splits.preprocessing
    is_named = isinstance(next(rows_loader(session).batches(0)), Mapping)
    if prepare is not None:
        rows = {name: prepare(value) if place == 0 else value for place, (name, value) in enumerate(rows.items())}
    with torch.no_grad():
        outputs = [
            plain_output(one(**rows) if is_named else one(*rows.values()))
            for one in (model.eval(), merged(model).eval())
        ]
    if not all(isinstance(output, Tensor) for output in outputs):
        return Merged()
    worst, tolerance = difference(outputs[1], outputs[0], "real rows"), _tolerance(model)
    return Merged(
        rows_compared=len(outputs[0]),
        max_abs_difference=worst.difference,
        largest_output=worst.scale,
        tolerance=tolerance,
        passed=worst.ratio <= tolerance,
    )


def _tolerance(model: nn.Module) -> float:
    """Return the largest difference that merging may make, by the coarsest type among the weights."""
    types = {value.dtype for value in model.parameters() if value.dtype.is_floating_point}
    return max(TOLERANCE, *(STEPS_OF_TYPE * torch.finfo(each).eps for each in types))
