"""Work on the pretended card: `python -m tests.trainer.reproducibility.card.runs LIBRARY`, a fork for each piece.

Pieces come line by line, as JSON, and each is answered by a line when it is done. A run directory is worked on as its
worker does, and gets `card.json`. Calls are pieces of Python with `torch`, `F` and `x1`, `x2`, `x3` (2, 3, 8, ...) on
the card; their errors go to the file that is named.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.trainer.reproducibility.card import guard

MODELS = ("bert", "gpt2", "t5", "vit")
LIBRARIES = ("peft", "transformers.models.auto.modeling_auto", "transformers.generation.utils",
             *(f"transformers.models.{kind}.modeling_{kind}" for kind in MODELS))  # fmt: skip


def main(library: str) -> None:
    """Do what comes in, one piece after the other."""
    guard.load(Path(library))
    from tests.worlds.warm import import_for_worker

    import_for_worker()
    for name in LIBRARIES:  # once, and not in every fork
        importlib.import_module(name)
    for line in sys.stdin:
        piece = json.loads(line)
        if "run" in piece:
            _in_a_fork(_work, Path(piece["run"]))
        else:
            _in_a_fork(_call, piece["calls"], Path(piece["to"]))
        print("done", flush=True)


def _in_a_fork(act: Any, *given: Any) -> None:
    child = os.fork()
    if child == 0:
        from trainwright.trainer.user_code.guard import exit_now

        code = 70
        try:
            code = act(*given)
        finally:
            sys.stdout.flush()
            exit_now(code)
    os.waitpid(child, 0)


def _work(path: Path) -> int:
    from tests.trainer.reproducibility.card import pretended

    from trainwright.trainer import worker
    from trainwright.trainer.run import RunDirectory
    from trainwright.trainer.run.environment import launch_environment

    run = RunDirectory(path)
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(launch_environment(run.specification().config))
    seen = pretended.install()
    found = os.open(path / "card.json", os.O_WRONLY | os.O_CREAT)  # before the worker's guard confines what is written
    code = worker.main([str(path)])
    os.write(found, json.dumps({"operations": seen.operations, "refused": seen.refused}).encode())
    return code


def _call(calls: dict[str, str], to: Path) -> int:
    import torch
    from tests.trainer.reproducibility.card import pretended

    from trainwright.trainer.base import seeding
    from trainwright.trainer.optimization.update import NonFinite

    seen = pretended.install()
    torch.use_deterministic_algorithms(True)
    found = {}
    for name, text in calls.items():
        seen.operations.clear()
        torch.manual_seed(0)
        drawn = {f"x{n}": torch.randn(2, 3, *(8,) * n, device="cuda", requires_grad=True) for n in (1, 2, 3)}
        error: BaseException | None = None
        try:
            names = {"torch": torch, "F": torch.nn.functional, "NonFinite": NonFinite, "seeding": seeding, **drawn}
            exec(text, names)  # noqa: S102 - the test's own text
        except Exception as raised:  # noqa: BLE001 - which is what is asked for
            error = raised
        found[name] = {"error": None if error is None else str(error), "operations": dict(seen.operations)}
    to.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
