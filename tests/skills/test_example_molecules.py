"""The molecules example: what is kept, how it is divided, and what counts as valid, unique and new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.skills.example_scripts import script

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.by_scaffold import scaffolds
from trainwright.trainer.data.splits import split_indices

pytestmark = pytest.mark.requirement("SKILL-4")
pytest.importorskip("rdkit", reason="the molecules lie in RDKit")


@pytest.fixture(scope="module")
def prepare() -> Any:
    return script("molecules", "prepare")


@pytest.fixture(scope="module")
def sample() -> Any:
    return script("molecules", "sample")


def test_a_molecule_is_kept_once_and_what_is_left_out_is_counted(prepare: Any) -> None:
    kept, left_out = prepare.chosen(["OCC", "CCO", "[Na+].[Cl-]", "C1CC", "C" * 80, "c1ccccc1"])
    assert kept == ["CCO", "c1ccccc1"]
    assert left_out == {"unreadable_or_mixture": 2, "too_long": 1, "copy": 1}


def test_the_data_are_the_same_each_time_and_every_text_ends(prepare: Any, tmp_path: Path) -> None:
    given = prepare.nci_smiles()[:300]
    assert prepare.write(tmp_path / "one", given) == prepare.write(tmp_path / "two", given)
    content = (tmp_path / "one" / "molecules.jsonl").read_bytes()
    assert content == (tmp_path / "two" / "molecules.jsonl").read_bytes()
    rows = [json.loads(line) for line in content.splitlines()]
    assert all(row["text"] == row["smiles"] + "\n" and len(row["smiles"]) <= prepare.LONGEST for row in rows)


def test_the_splits_share_no_scaffold(prepare: Any) -> None:
    molecules = np.array(prepare.chosen(prepare.nci_smiles()[:1500])[0])
    parts = split_indices(list(molecules), None, SplitSection(by="scaffold", smiles="smiles"), molecules)
    found = {name: set(scaffolds(molecules[rows], "smiles")) for name, rows in parts.items()}
    assert sum(map(len, found.values())) == len(set.union(*found.values()))
    assert min(map(len, parts.values())) > 100


def test_figures_of_known_molecules(sample: Any) -> None:
    texts = ["CCO", "OCC", "c1ccccc1", "C1CC", "", "C(C)(C)(C)(C)C"]  # ethanol twice, benzene, and three that are none
    found = sample.figures(texts, {"CCO"})
    assert found["validity"] == 0.5
    assert found["uniqueness"] == round(2 / 3, 4)
    assert found["novelty"] == 0.5
    assert found["valid_new"] == round(1 / 6, 4)
    assert found["qed_of_new"] == pytest.approx(0.4426, abs=1e-3), "of benzene"
    assert sample.figures(["", "C1CC"], set())["validity"] == 0.0


def test_aspirin_has_the_qed_of_the_literature(sample: Any) -> None:
    assert sample.figures(["CC(=O)Oc1ccccc1C(=O)O"], set())["qed_of_new"] == pytest.approx(0.5501, abs=1e-3)


def test_naive_samplers_draw_what_follows_in_the_data(sample: Any) -> None:
    assert sample.from_counts(["CCO"], 5, 3, seed=0) == ["CCO"] * 3, "four characters decide"
    drawn = sample.from_counts(["CCO", "N"], 1, 200, seed=0)
    assert set("".join(drawn)) == set("CON")
    assert any(text not in {"CCO", "N"} for text in drawn)
    assert sample.from_counts(["CCO", "CCN"], 3, 50, seed=4) == sample.from_counts(["CCO", "CCN"], 3, 50, seed=4)


def test_the_unigram_needs_the_entropy_of_the_characters(sample: Any) -> None:
    assert sample.unigram_bits(["CC", "OO"]) == pytest.approx(1.585, abs=1e-3), "of three signs, each as often"
