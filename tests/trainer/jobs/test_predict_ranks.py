"""predict.py of a ranking: each row's place among the rows of its group, whichever order the file has them in."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.trainer.jobs.test_predict import TABLE, answers, released, run, sums, used
from tests.trainer.metrics.test_metrics_by_groups import table

from trainwright.trainer.jobs.export.predict import answer_of, use_lines

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-1")
RANKED = TABLE | {"answer": {"kind": "ranks", "target": "left", "group": "query"}}


@pytest.fixture(scope="module")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that scores rows by their age."""
    return released(tmp_path_factory.mktemp("ranking"), RANKED, sums([[1], [0], [0]]))


def rows_file(folder: Path, ages: list[int], queries: list[str] | None) -> str:
    lines = [f"{age};basic;05.03.2022" for age in ages]
    lines = lines if queries is None else [f"{query};{line}" for query, line in zip(queries, lines, strict=True)]
    head = "age;plan;since" if queries is None else "query;age;plan;since"
    (folder / "rows.csv").write_text("\n".join([head, *lines]) + "\n")
    return str(folder / "rows.csv")


def test_rows_are_ranked_within_their_group_wherever_they_stand(ranking: Path, tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    queries, ages = draws.integers(0, 300, 3000), draws.integers(18, 60, 3000)
    found = answers(run(ranking, "--json", rows_file(tmp_path, ages.tolist(), [f"q{one}" for one in queries])))
    for place, one in enumerate(found):
        higher = ages[(queries == queries[place]) & (ages > ages[place])]
        assert one["answer"] == {"rank": 1 + len(higher), "score": ages[place]}, "equal scores share a rank"
    assert found[0]["input"]["query"] == f"q{queries[0]}"


def test_a_line_has_the_row_as_it_was_given_with_rank_and_score(ranking: Path, tmp_path: Path) -> None:
    done = run(ranking, rows_file(tmp_path, [20, 30], ["a", "a"]))
    first, second = csv.DictReader(io.StringIO(done.stdout))
    assert (first["query"], first["age"], first["plan"]) == ("a", "20", "basic")
    assert [one["predicted_rank"] for one in (first, second)] == ["2", "1"]


def test_rows_without_a_group_are_one_and_a_row_without_its_own_is_refused(ranking: Path, tmp_path: Path) -> None:
    first, _ = answers(run(ranking, "--json", rows_file(tmp_path, [20, 30], None)))
    assert first["answer"]["rank"] == 2
    assert first["notes"] == ["no column 'query': all rows are ranked as one group"]
    done = run(ranking, rows_file(tmp_path, [20, 30], ["a", ""]))
    assert done.returncode == 2
    assert "row 2, column 'query': it is empty" in done.stderr


@pytest.mark.parametrize(("metrics", "kind"), [(["group_map", "mae"], "ranks"), (["mae"], "numbers")])
def test_answers_are_ranks_where_a_metric_is_of_the_order_within_groups(
    metrics: list[str], kind: str, open_session: Any, tmp_path: Path
) -> None:
    values = table(tmp_path) | {"metrics": metrics, "selection": {"metric": "loss"}}
    found = answer_of(open_session(values), {"kind": "table"}, torch.zeros(2, 1))
    assert (found["kind"], found.get("group")) == (kind, "query" if kind == "ranks" else None)


def test_the_lines_of_use_run_as_they_stand(ranking: Path) -> None:
    for line in use_lines(RANKED):
        done = used(ranking, line)
        assert (done.returncode, done.stderr) == (0, "")
        assert '"rank": 1' in done.stdout.replace("'", '"')


def test_a_reader_that_ends_early_gets_no_traceback(ranking: Path, tmp_path: Path) -> None:
    file = rows_file(tmp_path, list(range(18, 60)) * 300, ["a"] * 12600)
    command = f"{sys.executable} -I -B predict.py {file} | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=ranking, capture_output=True, text=True, check=False)
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")
