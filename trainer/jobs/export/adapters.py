"""Adapter of a run, alone in peft's layout and merged into the weights: both are proven against base plus adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from trainwright.trainer.base.tensor_files import save_tensors
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.exporters import quiet
from trainwright.trainer.jobs.export.inputs import rows_loader
from trainwright.trainer.jobs.export.library import FOLDER as LIBRARY
from trainwright.trainer.jobs.export.library import is_wrapped_by_peft
from trainwright.trainer.jobs.export.parity import difference
from trainwright.trainer.jobs.export.program import HALF
from trainwright.trainer.models.adapters.prompted import Prompted
from trainwright.trainer.models.adapters.saved import FILES, adapter_state, merged, write_adapter
from trainwright.trainer.models.adapters.task_types import is_of_library
from trainwright.trainer.models.weight_types import held_in, is_quantised, type_of
from trainwright.trainer.objectives.supervised import plain_output
from trainwright.trainer.run.results import AdapterExport, Merged

FOLDER, MERGED = "adapter", "merged.safetensors"
TOLERANCE = 1e-4
"""Largest difference of outputs, times the largest output where that is above 1: merging rounds."""


def export_adapter(session: Session, rows: dict[str, Tensor], folder: Path) -> AdapterExport | None:
    """Write `adapter/`, and where a model is not the library's `merged.safetensors`; None without an adapter.

    Weights that would give other outputs than base plus adapter are not written, and the record says so. They are
    merged and compared in float32, in which the model is afterwards: in a shorter type merging rounds by more.

    Args:
        rows: real inputs, by name where the model is called so; none: outputs cannot be compared.
    """
    section, model = session.config.adapter, session.model
    if section is None:
        return _of_the_trainers(session, folder / FOLDER) if is_wrapped_by_peft(model) else None
    base, revision = _origin(session)
    write_adapter(model, folder / FOLDER, base, revision)
    wanted, again = adapter_state(model), load_file(folder / FOLDER / FILES[1])
    same = wanted.keys() == again.keys() and all(torch.equal(value, again[name]) for name, value in wanted.items())
    base_digest = session.base.record()["digest"] if session.base.is_needed else None  # of the weights as trained on
    found = None
    if section.merges and not is_quantised(model):
        if any(parameter.dtype in HALF for parameter in model.parameters()):
            model.float()
        found = _merged(session, rows)
    return AdapterExport(
        kind=section.name,
        folder=FOLDER,
        tensors=len(wanted),
        parameters=sum(value.numel() for value in wanted.values()),
        bytes=sum((folder / FOLDER / name).stat().st_size for name in FILES),
        base=base,
        revision=revision,
        base_digest=base_digest,
        reloaded_identical=same,
        merged_in=_write_merged(model, folder, found, is_compared=bool(rows)),
        merged=found,
        alone=_alone(session, rows, folder / FOLDER),
    )


def _of_the_trainers(session: Session, folder: Path) -> AdapterExport:
    """Write the adapter that a user's trainer brought along, as peft itself does."""
    from peft import get_peft_model_state_dict

    model: Any = session.model
    model.save_pretrained(str(folder))
    wanted, again = get_peft_model_state_dict(model), load_file(folder / FILES[1])
    same = wanted.keys() == again.keys() and all(torch.equal(value, again[name]) for name, value in wanted.items())
    config = model.peft_config[model.active_adapter]
    return AdapterExport(
        kind=str(config.peft_type.value).lower(),
        folder=FOLDER,
        tensors=len(wanted),
        parameters=sum(value.numel() for value in wanted.values()),
        bytes=sum((folder / name).stat().st_size for name in FILES),
        base=config.base_model_name_or_path or None,
        revision=config.revision,
        reloaded_identical=same,
    )


def _origin(session: Session) -> tuple[str | None, str | None]:
    """Return where the frozen weights come from, and the revision of a hub's; None: from the run's seed or code."""
    args = session.config.model.args if session.config.model is not None else {}
    return args.get("path") or args.get("hub"), args.get("revision")


def _write_merged(model: nn.Module, folder: Path, found: Merged | None, *, is_compared: bool) -> str | None:
    """Write the merged weights where they may be; return where they are, None for nowhere.

    A library's model is written as its folder, and only where rows can be compared (`write_library_folder`).
    """
    if found is None or found.passed is False:
        return None
    if is_of_library(model):
        return LIBRARY if is_compared else None
    state = {name: value.detach().clone() for name, value in merged(model).state_dict().items()}
    save_tensors(state, folder / MERGED, {"format": "pt"})
    return MERGED


def _alone(session: Session, rows: dict[str, Tensor], folder: Path) -> Merged | None:
    """Compare with the model what plain transformers and peft read: the base from where it came, and the adapter.

    None where the base has no place of its own, cannot be read there, or is held in a type that rounds by more.
    """
    model: Any = session.model
    args = session.config.model.args if session.config.model is not None else {}
    (base, revision), is_prompted = _origin(session), isinstance(model, Prompted)
    plain = model.inner.get_base_model() if is_prompted else model
    if base is None or not rows or not is_of_library(plain) or plain.dtype in HALF or is_quantised(model):
        return None
    from peft import PeftModel

    place = str(session.context.code_root / base) if args.get("path") else base
    held = held_in(plain.config, type_of(args.get("dtype", "float32")))
    try:
        again = type(plain).from_pretrained(
            place, config=plain.config, revision=revision, local_files_only=True, use_safetensors=True,
            ignore_mismatched_sizes=True, **held,
        )  # fmt: skip
    except OSError:
        return None
    with quiet():
        beside: Any = PeftModel.from_pretrained(again.to(plain.dtype), str(folder))
    return _compared(session, rows, Prompted(beside, model.virtual) if is_prompted else beside)


def _merged(session: Session, rows: dict[str, Tensor]) -> Merged:
    """Compare the merged weights' outputs with those of base plus adapter, on real rows."""
    return _compared(session, rows, merged(session.model)) if rows else Merged()


def _compared(session: Session, rows: dict[str, Tensor], other: nn.Module) -> Merged:
    """Compare another model's outputs with those of base plus adapter, on real rows."""
    model, prepare = session.model, session.work.splits.preprocessing
    is_named = isinstance(next(rows_loader(session).batches(0)), Mapping)
    if prepare is not None:
        rows = {name: prepare(value) if place == 0 else value for place, (name, value) in enumerate(rows.items())}
    with torch.no_grad():
        outputs = [
            plain_output(one(**rows) if is_named else one(*rows.values())) for one in (model.eval(), other.eval())
        ]
    if not all(isinstance(output, Tensor) for output in outputs):
        return Merged()
    worst = difference(outputs[1], outputs[0], "real rows")
    return Merged(
        rows_compared=len(outputs[0]),
        max_abs_difference=worst.difference,
        largest_output=worst.scale,
        tolerance=TOLERANCE,
        passed=worst.ratio <= TOLERANCE,
    )
