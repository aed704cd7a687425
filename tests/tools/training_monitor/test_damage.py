"""Whatever a run directory holds, the monitor answers or says what is damaged and what to do."""

from __future__ import annotations

import json
import math
import random
import sqlite3

import pytest

from trainwright.tools.figures.curves import learning_curves
from trainwright.tools.training_monitor import assess, compare_runs, diagnose, diagnostic_report
from trainwright.trainer.base.errors import IntegrityError

KEYS = [
    "train/loss",
    "train/epoch_loss",
    "train/gradient_norm",
    "train/accuracy",
    "validation/loss",
    "validation/accuracy",
    "epoch",
    "system/gpu_percent",
    "throughput/data_wait_fraction",
]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf, 0.15, 1e-3, 100.0]
GARBAGE = [None, "nan", "inf", "rubbish", b"\x00\xff", "", 2**62]


def whole_reading(run):
    """Read the run in every way; an IntegrityError must carry a remedy."""
    for read in (diagnose, assess, lambda r: compare_runs([r]), lambda r: diagnostic_report(r, None, [])):
        remedy = "read"
        try:
            read(run)
        except IntegrityError as error:
            remedy = error.remedy
        assert remedy


@pytest.mark.requirement("MON-1")
@pytest.mark.parametrize("seed", range(25))
def test_random_numbers_never_break_the_diagnosis(make_run, seed):
    draw = random.Random(seed)
    recorder = make_run()
    with recorder.run.metrics(writer=True) as metrics:
        for key in draw.sample(KEYS, draw.randint(1, len(KEYS))):
            steps = sorted(draw.sample(range(300), draw.randint(1, 120)))
            values = [draw.choice(NUMBERS) if draw.random() < 0.5 else draw.gauss(0, 10) for _ in steps]
            metrics.write([(key, step, value, 0.0) for step, value in zip(steps, values, strict=True)])
    diagnose(recorder.run)
    whole_reading(recorder.run)


@pytest.mark.parametrize("seed", range(3))
def test_random_numbers_never_break_a_picture(make_run, tmp_path, seed):
    draw = random.Random(seed)
    recorder = make_run()
    for key in KEYS:
        recorder.steps(key, [draw.choice(NUMBERS) for _ in range(40)])
    assert learning_curves([recorder.run], tmp_path / "a.png").is_file()


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_no_worker_writes_are_damage_with_a_remedy(make_run, seed):
    draw = random.Random(seed)
    recorder = make_run().steps("train/loss", [1.0] * 20)
    with sqlite3.connect(recorder.run.path / "metrics.sqlite") as database:
        for _ in range(draw.randint(1, 10)):
            step = draw.choice([5, 50, -3, "step", b"\x01", 2**62])
            row = (draw.choice(KEYS), step, draw.choice(GARBAGE), draw.choice([0.0, "then"]))
            database.execute("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", row)
    whole_reading(recorder.run)


@pytest.mark.parametrize("name", ["metrics.sqlite", "status.json", "run.json", "events.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 4096, b"{", b"[]", b"{}", b'{"state": 3}', b"[" * 100_000])
def test_a_damaged_file_is_read_or_named_with_a_remedy(healthy, name, content):
    run = healthy().run
    for extra in ("-wal", "-shm"):
        (run.path / f"{name}{extra}").unlink(missing_ok=True)
    (run.path / name).write_bytes(content)
    whole_reading(run)


@pytest.mark.parametrize("name", ["metrics.sqlite", "status.json", "run.json"])
def test_a_half_written_directory_is_read_or_named_with_a_remedy(healthy, name):
    run = healthy().run
    (run.path / name).unlink()
    whole_reading(run)


@pytest.mark.parametrize("evidence", [{}, {"device": 3, "model_arguments": 7}, {"train_seconds": "long", "best": []}])
def test_evidence_of_unexpected_form_is_passed_over(healthy, evidence):
    run = healthy().run
    for name in ("resolved", "summary", "environment", "data", "code"):
        (run.artifacts / f"{name}.json").write_text(json.dumps(evidence), encoding="utf-8")
    diagnose(run)
    whole_reading(run)


def test_events_of_unexpected_form_are_passed_over(make_run):
    run = make_run().run
    lines = [{"time": 0, "kind": "alert", "data": {"id": "nan_loss", "step": "?"}}, {"time": 0, "kind": "alert"}]
    (run.path / "events.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"torn', encoding="utf-8")
    assert [alert.id for alert in diagnose(run)] == ["nan_loss"]
