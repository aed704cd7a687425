"""A table of queries and documents: each row's group reaches the metrics of a run and of its rivals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from trainwright.trainer.assembly.metrics import check_metrics
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.engine.evaluation import evaluate_split, values_of
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.metrics import BUILT_IN, evaluate
from trainwright.trainer.metrics.built_in import OF_GROUPS

pytestmark = pytest.mark.requirement("GATE-6")
NAMES = ["group_ndcg_at_10", "group_map"]


def table(folder: Path, queries: int = 40, documents: int = 6) -> dict[str, Any]:
    """Write rows of (query, features, relevance) in no order; return the configuration of a run on them."""
    draws = np.random.default_rng(0)
    of = draws.permutation(np.repeat(np.arange(queries), documents))
    features = draws.normal(size=(len(of), 3))
    relevance = np.clip((features[:, 0] + 0.7 * draws.normal(size=len(of)) + 0.5).round(), 0, 3).astype(int)
    lines = [
        f"q{query},{','.join(f'{one:.4f}' for one in row)},{gain}"
        for query, row, gain in zip(of, features, relevance, strict=True)
    ]
    (folder / "ranked.csv").write_text("query,a,b,c,relevance\n" + "\n".join(lines) + "\n")
    return {
        "data": {
            "use": "csv",
            "args": {"path": "ranked.csv", "target": "relevance", "task": "regression"},
            "split": {"by": "group", "group": "query"},
        },
        "model": {"use": "mlp"},
        "loss": "mse",
        "metrics": [*NAMES, "mae"],
        "selection": {"metric": NAMES[0], "direction": "maximize"},
        "loader": {"batch_size": 32},
    }


def by_group(session: Any, split: str) -> tuple[np.ndarray[Any, Any], list[np.ndarray[Any, Any]]]:
    """The outputs of a split's rows, and the rows of each query, by the file's own column."""
    samples = session.work.splits.samples[split]
    lines = (Path(session.specification.code_root) / "ranked.csv").read_text().splitlines()[1:]
    queries = [line.split(",")[0] for line in lines]
    of = np.array(queries)[samples.rows.numpy()]
    session.model.eval()
    with torch.no_grad():
        outputs = session.model(samples.prepare.call(samples.column(0))).numpy().reshape(-1)
    return outputs, [np.flatnonzero(of == query) for query in np.unique(of)]


def test_validation_ranks_the_rows_of_each_query_and_training_does_not(open_session: Any, tmp_path: Path) -> None:
    from sklearn.metrics import ndcg_score

    session = open_session(table(tmp_path))
    found = evaluate_split(session, session.validation_loader)
    outputs, queries = by_group(session, "validation")
    targets = session.work.splits.samples["validation"].column(1).numpy().reshape(-1)
    each = [ndcg_score([targets[rows]], [outputs[rows]], k=10) for rows in queries if targets[rows].any()]
    assert len(queries) > 4
    assert found["group_ndcg_at_10"] == pytest.approx(np.mean(each), rel=1e-6)
    assert 0 < found["group_map"] < 1
    session.totals.outputs, session.totals.targets = [torch.rand(9, 1)], [torch.rand(9, 1)]
    assert {"mae"} == {*values_of(session, session.totals, session.train_loader)} & {"mae", *NAMES}


def test_a_rival_is_scored_by_the_same_groups(open_session: Any, tmp_path: Path) -> None:
    session = open_session(table(tmp_path))
    found = rivals_evidence(session.work.splits, session.config)
    assert found is not None
    trees = next(one for one in found.rivals if one.name == "boosted_trees")
    assert set(NAMES) < trees.metrics.keys()
    assert 0.7 < trees.metrics["group_ndcg_at_10"] <= 1.0


def test_without_groups_a_metric_by_groups_has_no_value() -> None:
    outputs, targets = torch.tensor([0.1, 0.9]), torch.tensor([0.0, 1.0])
    metrics = [BUILT_IN[name] for name in (*OF_GROUPS, "mae")]
    assert evaluate(metrics, outputs, targets).keys() == {"mae"}
    assert evaluate(metrics, outputs, targets, groups=np.zeros(2))["group_mrr"] == 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"split": {}}, "data.split.by is random: name the column of the groups"),
        ({"split": {"by": "time", "time": "a"}}, "data.split.by is time"),
        ({"use": "mine:data", "args": {}}, "no column of a table names these"),
    ],
)
def test_data_that_are_not_split_by_group_are_refused_in_words(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    values = table(tmp_path)
    with pytest.raises(ValidationError, match=re.escape(words)):
        TrainingConfig.model_validate(values | {"data": values["data"] | changes})


def test_what_no_column_divides_by_groups_is_refused_before_training(open_session: Any, tmp_path: Path) -> None:
    work = open_session(table(tmp_path)).work
    check_metrics(work)
    with pytest.raises(ConfigurationError, match="not divided by groups of rows of a table"):
        check_metrics(replace(work, splits=replace(work.splits, groups={})))
