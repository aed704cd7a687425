"""Four examples' configurations train as they are, on small data that their own scripts made."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.skills.example_scripts import EXAMPLES, archive_of, script
from tests.variants import variants

from trainwright.trainer.config import apply_changes, load_yaml

pytestmark = [pytest.mark.requirement("SKILL-4"), pytest.mark.slow, pytest.mark.forks]
SHORT = {"training.epochs": 2, "training.max_steps": 3, "logging.tensorboard": False}
SMALLER = {name: {"data.args.tokenizer": "bpe:300"} for name in ("textgen", "sentiment")}
WORDS = ("and", "the", "king", "said", "unto", "him", "come", "hither")


def _trade(data: Path) -> None:
    import numpy as np

    prepare, draw = script("trade", "prepare"), np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(draw.normal(0, 0.01, 700)))
    days = [date(2001, 1, 1) + timedelta(day) for day in range(700)]
    prepare.write(data, prepare.Prices(days, close * 1.01, close * 0.99, close, draw.uniform(1e8, 2e8, 700)))


def _molecules(data: Path) -> None:
    pytest.importorskip("rdkit", reason="the molecules lie in RDKit")
    prepare = script("molecules", "prepare")
    prepare.write(data, prepare.nci_smiles()[:400])


def _sentiment(data: Path) -> None:
    prepare, draw = script("sentiment", "prepare"), random.Random(0)
    lines = [f"{n}\t{draw.choice((-2, 0, 2))}\t{' '.join(draw.choices(WORDS, k=9))}\r\n"
             for n in range(200)]  # fmt: skip
    inner = archive_of(
        {f"hutto_ICWSM_2014/{name}_GroundTruth.txt": "".join(lines).encode() for name in prepare.SOURCES}
    )
    sdist = data.parent / "sdist.tar.gz"
    sdist.write_bytes(archive_of({f"v/{prepare.INNER}": inner}))
    prepare.write(data, sdist)


def _textgen(data: Path) -> None:
    draw, rows = random.Random(0), []
    for place in range(60):
        text = " ".join(draw.choices(WORDS, k=200))
        rows.append({"split": script("textgen", "prepare").split_of(place), "text": text})
    data.mkdir()
    (data / "chapters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


MADE = {"trade": _trade, "molecules": _molecules, "sentiment": _sentiment, "textgen": _textgen}


@pytest.mark.parametrize("name", variants(MADE, quick=["textgen"]))
def test_a_configuration_trains_on_what_its_script_made(name: str, tmp_path: Path, make_run: Any, work: Any) -> None:
    MADE[name](tmp_path / "data")
    folder = EXAMPLES / name
    if (folder / "adapter.py").is_file():
        (tmp_path / "adapter.py").write_text((folder / "adapter.py").read_text(encoding="utf-8"))
    values = load_yaml((folder / "config.yaml").read_text(encoding="utf-8"))
    values = apply_changes({**values, "code_root": str(tmp_path)}, SHORT | SMALLER.get(name, {}))
    run = make_run(tmp_path / "runs" / "run", values, code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()[-3000:]
    best = run.evidence("summary")["best"]
    goal = load_yaml((folder / "example.yaml").read_text(encoding="utf-8"))["goal"]
    assert best["metric"] == goal["metric"]
    assert best["metric"] in best["metrics"]
