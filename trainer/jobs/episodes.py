"""Episodes of the user's, apart: `python -P -m trainwright.trainer.jobs.episodes`, the order on its input.

The process has one program, or the reference in its place, seeds that the server drew, and copies of the files of both:
no model, no run, no other file of the user's, and nothing that says whose turn it is. One JSON object on standard
output: the number of each episode by split; or `why` there is none, or a `problem`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainwright.trainer.clean_room.episodes import Answering, played, seeds_of
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


def _splits(order: Mapping[str, Any]) -> dict[str, list[float]]:
    program = _answer_of(order["program"])
    answer = _reference(order["reference"], program) if order.get("reference") else program
    function = function_of(order, order["args"])
    return {
        split: played(function, Answering(answer), seeds_of(drawn, order["episodes"]), reseed=_reseed).tolist()
        for split, drawn in order["drawn"].items()
    }


def _answer_of(order: Mapping[str, Any]) -> Answer:
    program = open_program(order, threads=1)
    return lambda inputs: next(iter(program(inputs).values()))


def _reference(named: Mapping[str, str], program: Answer) -> Answer:
    """Return the user's reference, which takes and gives what the program does."""
    reference = function_of(named, {})

    def answer(inputs: dict[str, Array]) -> Array:
        places = [value for name, value in inputs.items() if name.isdigit()]
        given = reference(*places, **{name: value for name, value in inputs.items() if not name.isdigit()})
        theirs, model = np.asarray(given), program(inputs)
        if theirs.shape != model.shape:
            raise RefusalError(f"it gives {theirs.shape} where the model gives {model.shape}", "Give the same.")
        return theirs

    return answer


def _reseed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if (torch := sys.modules.get("torch")) is not None:  # the user's file imported it
        torch.manual_seed(seed)


if __name__ == "__main__":
    sys.exit(main(_answered))
