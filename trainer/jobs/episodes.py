"""Episodes of the user's, apart: `python -P -m trainwright.trainer.jobs.episodes`, the order on its input.

The process has the exported program, seeds that the server drew, and copies of the files of the function and of the
reference: no model, no run, no other file of the user's. One JSON object on standard output: by split `value`, its
`interval`, and what the reference and a baseline's program give on the same seeds; or `why` there is none, or a
`problem`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.trainer.clean_room.episodes import Answering, interval_of, played, seeds_of
from trainwright.trainer.clean_room.intervals import Resampling, bootstrap
from trainwright.trainer.clean_room.programs import open_program
from trainwright.trainer.clean_room.rows import Array, RefusalError
from trainwright.trainer.jobs.apart import function_of, main

Answer = Callable[[dict[str, Array]], Array]
"""The prediction, (rows, ...), of inputs (rows, ...) by place or name."""


def _answered(order: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"splits": _splits(order)}
    except RefusalError as error:
        return {"why": f"your function {order['callable']}: {error.problem}. {error.remedy}"}


def _splits(order: Mapping[str, Any]) -> dict[str, Any]:
    program = _answer_of(order["program"])
    function = function_of(Path(order["file"]), order["callable"], order["args"])
    others = {"beside": _answer_of(order["beside"])} if order.get("beside") else {}
    others |= {"reference": _reference(order["reference"], program)} if order.get("reference") else {}
    found: dict[str, Any] = {}
    for split, drawn in order["drawn"].items():
        seeds = seeds_of(drawn, order["episodes"])
        ours = played(function, Answering(program), seeds, reseed=_reseed)
        found[split] = {"value": float(ours.mean()), "interval": interval_of(ours)}
        found[split] |= {name: _against(other, function, seeds, ours) for name, other in others.items()}
    return found


def _answer_of(order: Mapping[str, Any]) -> Answer:
    program = open_program(order, threads=1)
    return lambda inputs: next(iter(program(inputs).values()))


def _reference(named: Mapping[str, str], program: Answer) -> Answer:
    """Return the user's reference, which takes and gives what the program does."""
    reference = function_of(Path(named["file"]), named["callable"], {})

    def answer(inputs: dict[str, Array]) -> Array:
        places = [value for name, value in inputs.items() if name.isdigit()]
        given = reference(*places, **{name: value for name, value in inputs.items() if not name.isdigit()})
        theirs, model = np.asarray(given), program(inputs)
        if theirs.shape != model.shape:
            raise RefusalError(f"it gives {theirs.shape} where the model gives {model.shape}", "Give the same.")
        return theirs

    return answer


def _against(other: Answer, function: Callable[..., Any], seeds: list[int], ours: Array) -> dict[str, Any]:
    """Return another's mean on the same seeds, and the interval of the difference; or a `problem`."""
    try:
        theirs = played(function, Answering(other), seeds, reseed=_reseed)
    except Exception as error:  # noqa: BLE001 - whatever the user's function raises
        return {"problem": " ".join(str(error).split())[:200]}
    apart = ours - theirs
    between = bootstrap(lambda at: float(apart[at].mean()), len(apart), Resampling(len(apart)))
    return {"value": float(theirs.mean()), "interval": between}


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:  # the user's file imported it
        torch.manual_seed(seed)


if __name__ == "__main__":
    sys.exit(main(_answered))
