"""Data versions: projected from the smoke runs' sealed records, with card and diff."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.tools.ledger.events import RunSealed, RunStarted
from trainwright.tools.versions import (
    DataVersion,
    card_of,
    data_versions,
    diff_text,
    diff_versions,
    version_named,
    version_of,
)
from trainwright.tools.versions.diff import quantile_distance, stability_index
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.data.assemble import from_user
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.data import column_profile, profile_evidence
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.evidence import Data, Split
from trainwright.trainer.run.profile import Origin, Profile

pytestmark = pytest.mark.requirement("REPRO-4", "TRACK-1", "PIPE-4")
NAMES = ["age", "plan"]


class Project:
    """Smoke runs of a project, as their workers leave them, and the ledger's entries on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, RunStarted] = {}
        self.seals: dict[str, RunSealed] = {}

    def run_directory(self, project: str, run_id: str) -> RunDirectory:
        return RunDirectory(self.folder / run_id)

    def smoke(self, ages: np.ndarray, plans: np.ndarray, fingerprint: str, *, then: Any = None, **origin: Any) -> str:
        """Seal a smoke run that saw this train split."""
        run_id = f"smoke-{len(self.started) + 1}"
        config = parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}})
        specification = RunSpecification(
            run_id=run_id, project="churn", kind=RunKind.SMOKE, config=config, config_digest=config_digest(config),
            code_root=str(self.folder),
        )  # fmt: skip
        run = RunDirectory.create(self.folder / run_id, specification)
        train = {"size": len(ages), "fingerprint": "t", "classes": {"0": len(ages) - 1, "1": 1}}
        run.write_evidence(
            Data(
                fingerprint=fingerprint,
                source="csv",
                splits={"train": train, "test": {"size": 5, "fingerprint": "x"}},
                feature_names=NAMES,
                class_names=["stays", "leaves"],
                understood={"target": "churned: 2 classes"},
                columns=[{"name": "age", "kind": "number", "reason": "the first 200 cells are numbers in years"}],
                files={"churn.csv": fingerprint},
                categories={"plan": ["basic", "plus"]},
            )
        )
        columns = {"age": column_profile(ages), "plan": column_profile(plans, ["basic", "plus"])}
        run.write_evidence(Profile(columns=columns, rows=len(ages)))
        run.write_evidence(Origin(**origin))
        if then is not None:
            then(run)
        self.started[run_id] = RunStarted(
            run_id=run_id, kind="smoke", label=None, seed=1, config_digest="c", base_config_digest="c", source_run=None,
            study=None, created_at=datetime(2026, 11, 23, tzinfo=UTC),
        )  # fmt: skip
        ended = datetime(2026, 11, 23, tzinfo=UTC)
        self.seals[run_id] = RunSealed(run_id=run_id, state="completed", digests=run_digests(run), ended_at=ended)
        return run_id


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project whose smoke runs saw two contents, the first of them twice."""
    made, draws = Project(tmp_path), np.random.default_rng(0)
    ages, plans = draws.normal(40, 10, 200), np.zeros(200)
    made.smoke(ages, plans, "blake3:1", licence="CC-BY-4.0", licence_from="data.licence", dvc={"churn.csv": "md5:ab"})
    made.smoke(ages, plans, "blake3:1")
    made.smoke(ages + 20, np.arange(200) % 2.0, "blake3:2")
    return made


def test_each_content_is_a_version_after_the_one_before(project: Any) -> None:
    versions = data_versions(project, project, "churn")
    assert [(one.name, one.fingerprint, one.parent, one.run_id) for one in versions] == [
        ("v1", "blake3:1", None, "smoke-1"),
        ("v2", "blake3:2", 1, "smoke-3"),
    ]
    assert version_of(versions, "blake3:2") is versions[1]
    assert version_named(versions, "latest", "churn") is version_named(versions, "v2", "churn") is versions[1]
    with pytest.raises(NotFoundError, match="no data version 'v3'") as refused:
        version_named(versions, "v3", "churn")
    assert refused.value.remedy == "There are: v1, v2."


def test_a_record_that_was_edited_after_its_seal_is_no_version(project: Any) -> None:
    path = project.folder / "smoke-3" / "artifacts" / "data.json"
    path.write_text(path.read_text().replace("blake3:2", "blake3:9"))
    assert [one.fingerprint for one in data_versions(project, project, "churn")] == ["blake3:1"]


def test_the_card_has_source_rows_columns_licence_digests_and_parent(project: Any) -> None:
    versions = data_versions(project, project, "churn")
    first, second = (card_of(project, project, "churn", versions, version) for version in versions)
    for line in ("| licence | CC-BY-4.0 (by data.licence) |", "| source | csv |", "| size | 205 rows |",
                 "| churn.csv | blake3:1 | md5:ab |", "| plan | 0 | basic 100 % |",
                 "| target, as understood | churned: 2 classes |",
                 "| age | number | the first 200 cells are numbers in years |"):  # fmt: skip
        assert line in first, first
    assert "| version | v2, after v1 |" in second
    assert "## From v1 to v2" in second
    slip = versions[1].model_copy(update={"number": 3, "parent": 2})
    assert "## From v1 to v3" in card_of(project, project, "churn", [*versions, slip], slip, released=versions[0])
    assert "## From" not in card_of(project, project, "churn", versions, versions[1], released=versions[1])


def test_a_series_is_counted_in_windows() -> None:
    known = {"number": 1, "fingerprint": "f", "parent": None, "run_id": "smoke", "splits": {"train": Split(size=12)}}
    assert DataVersion.model_validate(known).told == "12 rows"
    assert DataVersion.model_validate(known | {"understood": {"series": "20 rows"}}).told == "12 windows"


def test_the_diff_names_what_shifted_by_how_much(project: Any) -> None:
    versions = data_versions(project, project, "churn")
    diff = diff_versions(project, project, "churn", *versions)
    shifts = {shift.column: (shift.measure, shift.value) for shift in diff.shifts}
    age = versions[0].profile.columns["age"]
    assert shifts["age"] == ("Wasserstein", pytest.approx(20 / (age.deviation or 0), rel=0.01))
    assert shifts["plan"][0] == "PSI"
    assert shifts["plan"][1] > 1
    assert diff.files == {"churn.csv": "changed"}
    assert diff.rows is None
    assert "Rows were not compared: a smoke run recorded none" in diff_text(diff)


def test_the_diff_counts_rows_by_the_records_of_the_smoke_runs(tmp_path: Path) -> None:
    made: Any = Project(tmp_path)
    ages = np.random.default_rng(0).normal(40, 10, 200)

    def record(run: RunDirectory, count: int) -> None:
        inputs = torch.arange(count, dtype=torch.float32)[:, None]
        pairs = list(zip(inputs, inputs + 1, strict=True))
        record_split_rows(run, from_user(pairs, SplitSection(by="hash"), source="a.py:d", seed=0))

    made.smoke(ages, np.zeros(200), "blake3:1", then=lambda run: record(run, 200))
    made.smoke(ages, np.zeros(200), "blake3:2", then=lambda run: record(run, 210))
    diff = diff_versions(made, made, "churn", *data_versions(made, made, "churn"))
    assert diff.rows == {"new": 10, "gone": 0, "test_in_train": 0, "test_in_validation": 0, "changed": 0}
    assert "Rows by their inputs: 10 new, 0 gone, 0 test in train" in diff_text(diff)


def test_shifts_are_none_between_equal_columns() -> None:
    column = column_profile(np.arange(1000.0))
    assert quantile_distance(column, column) == 0
    assert stability_index({"a": 0.3, "b": 0.7}, {"a": 0.3, "b": 0.7}) == 0
    expected = 0.1 * np.log(1.2) - 0.1 * np.log(0.8)
    assert stability_index({"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.4}) == pytest.approx(expected)


def test_the_profile_reads_the_train_split_as_the_source_has_it() -> None:
    raw = torch.tensor([[1.0, 5.0], [2.0, float("nan")], [1.0, 7.0], [100.0, 100.0]])
    samples = TensorSamples(raw, torch.tensor([0, 1, 0, 1]))
    splits = Splits(samples={"train": samples.subset([0, 1, 2]), "test": samples.subset([3])}, records={}, source="csv",
                    feature_names=NAMES)  # fmt: skip
    profile = profile_evidence(splits)
    assert profile.rows == 3
    assert profile.columns["age"].shares == {"1": pytest.approx(2 / 3, rel=1e-5), "2": pytest.approx(1 / 3, rel=1e-5)}
    assert (profile.columns["plan"].missing, profile.columns["plan"].mean) == (1, 6.0)
