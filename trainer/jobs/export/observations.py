"""Observations: what episodes that a function of the user's plays give the model, and that function's source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import episode_entries
from trainwright.trainer.clean_room.episodes import Answering, played, seeds_of
from trainwright.trainer.clean_room.rows import Array
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.inputs import Inputs
from trainwright.trainer.jobs.export.own_functions import imported_packages, ship_function
from trainwright.trainer.jobs.export.parity import wanted_of
from trainwright.trainer.jobs.export.served import Served

PLAYED = 2
"""Episodes whose inputs are compared."""
CODE = (
    "import sys; sys.path[:0] = {folders}; from pathlib import Path; from predict import Program; "
    'from {module} import {function}; program = Program(Path("{program}")); '
    "print({function}(lambda *given, **named: program({{**dict(enumerate(given)), **named}}), 1{args}))"
)
"""Plays the episode of seed 1."""


def observations(session: Session, served: Served, most: int) -> Inputs | None:
    """Return inputs of the worker's own episodes by name, (rows, ...), evenly chosen; None where none are played."""
    plays = next((one for one in session.work.metrics if one.episodes), None)
    if plays is None:
        return None
    names, seen = list(next(served.rows.batches())), list[dict[str, Array]]()

    def answer(given: Mapping[str, Array]) -> Array:
        inputs = {names[int(name)] if name.isdigit() else name: value for name, value in given.items()}
        seen.append(inputs)
        tensors = {name: torch.from_numpy(value.copy()) for name, value in inputs.items()}
        return wanted_of(served.serving, tensors)[0].numpy()

    played(plays.compute, Answering(answer), seeds_of(session.seed, PLAYED), reseed=seeding.seed_everything)
    alike = [one for one in seen if all(one[name].shape[1:] == seen[0][name].shape[1:] for name in names)]
    found = {name: torch.cat([torch.from_numpy(one[name].copy()) for one in alike]) for name in names}
    count = len(next(iter(found.values())))
    chosen = torch.linspace(0, count - 1, min(count, most)).long()
    return {name: value[chosen] for name, value in found.items()}


def ship_episodes(config: TrainingConfig, code_root: Path, folder: Path, program: str) -> dict[str, Any] | None:
    """Ship the user's function that plays episodes; return it, what it needs, and the line that plays one.

    None where there is none, or where its source is nothing to ship (a secret in it, too large).
    """
    entry = next(iter(episode_entries(config.metrics)), None)
    if entry is None:
        return None
    with suppress(ConfigurationError):
        shipped = ship_function(entry.use, "metrics", code_root, folder)
        place, _, function = shipped.partition(":")
        folders = dict.fromkeys([Path(place).parent.as_posix(), Path(place).parts[0]])
        code = CODE.format(
            folders=json.dumps(list(folders)), module=Path(place).stem, function=function, program=program,
            args=f", **{entry.args}" if entry.args else "",
        )  # fmt: skip
        return {"function": shipped, "needs": " ".join(imported_packages(folder)), "use": code}
    return None
