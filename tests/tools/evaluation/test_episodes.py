"""A function of the user's plays episodes with the exported program alone, on seeds that the server draws."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.tools.evaluation.conftest import CONFIG, Evaluated

from trainwright.tools.evaluation import Others, evaluate_program
from trainwright.tools.evaluation.baseline import Named
from trainwright.tools.evaluation.episodes import drawn_before
from trainwright.tools.evaluation.own_metrics import copied
from trainwright.tools.gates.figures import evaluation_text
from trainwright.tools.gates.shown import certified_figure
from trainwright.tools.verification.evaluations import figures_again
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.episodes import seeds_of
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Code

pytestmark = pytest.mark.requirement("PIPE-3", "GATE-6")

GAME = '''\
import random

import numpy


def _rows(seed):
    return numpy.random.default_rng(seed).normal(size=(1, 4))


def found(program, seed):
    cells = _rows(seed)
    return int(program(cells)[0].argmax()) == int(cells[0, :3].argmax())


def spread(program, seed, times=1.0):
    """As of a generator: how far apart what it makes of the seed's noise is."""
    return times * program(_rows(seed)).std()


def forgets_the_seed(program, seed):
    program(_rows(seed))
    return random.SystemRandom().random()


def idle(program, seed):
    return 1.0


def lost(program, seed):
    program(_rows(seed))
    return float("nan")


def largest(cells):
    return numpy.concatenate([cells[:, :3]], axis=1)


def classes(cells):
    return cells[:, :3].argmax(1)
'''


def play(evaluated: Evaluated, *names: str, reference: str | None = None, episodes: int = 60, **args: Any) -> None:
    """Let the run have imported the game, some of whose functions are its metrics."""
    root = Path(evaluated.run.specification().code_root)
    (root / "game.py").write_text(GAME)
    evaluated.run.write_evidence(Code(files={"game.py": digest_file(root / "game.py")}))
    metrics: list[Any] = [{"use": f"game.py:{name}", "episodes": episodes, "args": args} for name in names]
    gate = {"evaluation_gate": {"reference": f"game.py:{reference}"}} if reference else {}
    evaluated.configure(metrics=["accuracy", *metrics], **gate)


def logits_of(evaluated: Evaluated, seed: int) -> np.ndarray[Any, Any]:
    """What the linear program answers to the row of a seed."""
    room = evaluated.room
    weights, *_ = np.linalg.lstsq(np.c_[room.inputs, np.ones(len(room.inputs))], room.logits, rcond=None)
    cells = np.random.default_rng(seed).normal(size=(1, 4)).astype(np.float32)
    answer: np.ndarray[Any, Any] = np.c_[cells, 1.0] @ weights
    return answer


def test_the_mean_over_episodes_is_of_the_programs_answers_on_the_seeds_that_were_drawn(evaluated: Evaluated) -> None:
    play(evaluated, "spread", times=2.0)
    evaluated.report(accuracy=evaluated.accuracy, loss=evaluated.loss, spread=1e6)
    found = evaluated.evaluation()
    assert found.problem == ""
    assert found.differences == [], "what the training process played are other episodes"
    record = found.splits["validation"]
    drawn, count = (record["episodes"]["spread"][key] for key in ("drawn", "count"))
    expected = [2.0 * logits_of(evaluated, seed).std() for seed in seeds_of(drawn, count)]
    assert count == 60
    assert record["metrics"]["spread"] == pytest.approx(np.mean(expected), rel=1e-4)
    low, high = record["intervals"]["spread"]
    half = 1.96 * np.std(expected, ddof=1) / np.sqrt(60)
    # resampled ends lean with the values, whose seeds are drawn anew each time
    assert (low, high) == pytest.approx((np.mean(expected) - half, np.mean(expected) + half), abs=half / 2)
    assert record["own"] == ["spread"]
    assert record["metrics"]["accuracy"] == pytest.approx(evaluated.accuracy), "beside what the rows give"
    value = record["metrics"]["spread"]
    assert evaluation_text(found, "spread") == f"validation spread {value:.6g} (1e+06 reported) on 60 episodes"
    assert " on 90 rows, spread " in evaluation_text(found), "each figure with what it is of"
    run: Any = SimpleNamespace(evaluation=found, certified=found.certified, is_complete=True)
    assert certified_figure(run, "validation", "spread") == {
        "value": value, "rows": 60, "of": "60 episodes", "unit": "episodes", "interval": [low, high],
    }  # fmt: skip


def test_each_program_has_seeds_of_its_own_and_verify_plays_those_of_the_ledger(evaluated: Evaluated) -> None:
    play(evaluated, "spread")
    first, second = evaluated.evaluation(), evaluated.evaluation()
    drawn = [one.splits["validation"]["episodes"]["spread"]["drawn"] for one in (first, second)]
    assert drawn[0] != drawn[1]
    assert first.certified()["spread"] != second.certified()["spread"]
    starts = {name: SimpleNamespace(kind=RunKind.EXPORT, source_run="final-1") for name in ("export-1", "export-2")}
    known: Any = SimpleNamespace(evaluations={"export-1": first}, started=starts)
    seeds = {"validation": {"spread": drawn[0]}}
    assert drawn_before(known, "export-2", "final-1", "blake3:other") == seeds, "an export again draws no luckier ones"
    assert drawn_before(known, "final-2", None, first.program) == seeds, "nor does another run of the same weights"
    assert drawn_before(known, "final-2", None, "blake3:other") == {}
    run, rows = evaluated.sealed()
    assert figures_again(run, Others(rows, None), first) == []
    changed = first.splits["validation"]["metrics"] | {"spread": first.certified()["spread"] + 1}
    forged = first.model_copy(update={"splits": {"validation": {**first.splits["validation"], "metrics": changed}}})
    (problem,) = figures_again(run, Others(rows, None), forged)
    assert "validation spread recorded" in problem


def test_won_or_lost_episodes_have_wilsons_interval(evaluated: Evaluated) -> None:
    play(evaluated, "found", episodes=25)
    record = evaluated.evaluation().splits["validation"]
    share, count, z = record["metrics"]["found"], 25, 1.959964
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    assert record["intervals"]["found"] == pytest.approx([middle - half, middle + half], rel=1e-5)


def test_files_that_the_functions_file_imports_are_there_and_no_others(evaluated: Evaluated) -> None:
    play(evaluated, "found", episodes=25)
    expected = evaluated.evaluation().certified()
    root = Path(evaluated.run.specification().code_root)
    (root / "rules").mkdir()
    (root / "rules" / "game.py").write_text("from rules import rows as known\nfrom .rows import *\n" + GAME)
    (root / "rules" / "rows.py").write_text("import json\n")
    (root / "rules" / "other.py").write_text("")
    files = {f"rules/{name}.py": digest_file(root / "rules" / f"{name}.py") for name in ("game", "rows", "other")}
    evaluated.run.write_evidence(Code(files=files))
    evaluated.configure(metrics=["accuracy", {"use": "rules/game.py:found", "episodes": 25}])
    found = evaluated.evaluation()
    assert found.certified().keys() == expected.keys(), found.splits["validation"]["not_computed"]
    kept = copied(evaluated.sealed()[0], "rules/game.py:found", root / "apart")
    assert sorted(path.name for path in Path(kept["root"]).rglob("*.py")) == ["game.py", "rows.py"]
    (root / "rules" / "rows.py").write_text("import csv\n")
    record = evaluated.evaluation().splits["validation"]
    assert record["not_computed"]["found"] == "rules/rows.py is not the file that the run imported"


def test_a_reference_plays_the_same_seeds(evaluated: Evaluated) -> None:
    play(evaluated, "found", reference="largest")
    record = evaluated.evaluation().splits["validation"]
    rival = record["rivals"]["game.py:largest"]
    assert rival["metrics"]["found"] == 1.0
    low, high = rival["paired"]["intervals"]["found"]
    assert low <= record["metrics"]["found"] - 1.0 <= high
    play(evaluated, "found", reference="classes")
    rival = evaluated.evaluation().splits["validation"]["rivals"]["game.py:classes"]
    assert "found" not in rival["metrics"], "it names classes, and the game needs what the model gives"
    assert "accuracy" in rival["metrics"]


def test_a_named_baseline_plays_the_same_seeds(evaluated: Evaluated) -> None:
    play(evaluated, "spread", episodes=20)
    run, rows = evaluated.sealed()
    found = evaluate_program(run, Others(rows, baseline=Named("flowers/final-1", "flowers", run, {})))
    assert found is not None
    beside = found.beside["splits"]["validation"]
    assert beside["metrics"]["spread"] == found.certified()["spread"], "it is the same program"
    assert beside["paired"]["intervals"]["spread"] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("forgets_the_seed", r"gives 0\.\d+ and then 0\.\d+ for the seed \d+\. Draw everything that is random from"),
        ("idle", "it never calls the program"),
        ("lost", r"it gives nan for the seed \d+"),
    ],
)
def test_a_function_of_which_no_mean_can_be_certified_says_why(evaluated: Evaluated, name: str, why: str) -> None:
    play(evaluated, name)
    found = evaluated.evaluation()
    record = found.splits["validation"]
    assert name not in record["metrics"]
    assert re.search(why, record["not_computed"][name])
    known: Any = SimpleNamespace(evaluations={"final-1": found}, started={})
    assert drawn_before(known, "final-1", None, None)["validation"].keys() == {name}, "it is not drawn again either"


def test_only_a_function_in_a_file_has_episodes() -> None:
    for given, why in (
        ({"use": "accuracy", "episodes": 10}, "episodes"),
        ({"use": "game.py:found", "episodes": 1}, "episodes"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            parse_config({**CONFIG, "metrics": [given]})
