"""Data that DVC tracks: found, digested, pulled by dvc itself; and the licence beside the data."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.companions import DVC

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.dvc import PROGRAM, pull_tracked, tracked_by, tracked_digests, tracked_places
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, scan_source
from trainwright.trainer.evidence.origin import origin_evidence

pytestmark = pytest.mark.requirement("PIPE-4")
LOCK = """\
schema: '2.0'
stages:
  prepare:
    outs:
    - path: data/ready.csv
      hash: md5
      md5: 0123abcd
"""


def test_a_file_of_dvc_beside_the_data_or_above_them_names_their_digest(tmp_path: Path) -> None:
    (tmp_path / "data" / "pictures").mkdir(parents=True)
    (tmp_path / "data" / "pictures.dvc").write_text("outs:\n- md5: ab12.dir\n  path: pictures\n")
    (tmp_path / "dvc.lock").write_text(LOCK)
    inside, ready, other = (tmp_path / "data" / name for name in ("pictures/one.png", "ready.csv", "other.csv"))
    found = tracked_digests([inside, ready, other], tmp_path)
    assert found == {"data/pictures": "md5:ab12.dir", "data/ready.csv": "md5:0123abcd"}
    assert tracked_by(inside, tmp_path) == tmp_path / "data" / "pictures.dvc"
    assert tracked_by(ready, tmp_path) == ready
    assert tracked_by(other, tmp_path) is None


def test_a_pattern_may_mean_tracked_files_or_files_in_a_tracked_folder(tmp_path: Path) -> None:
    for name in ("train.csv.dvc", "test.csv.dvc", "other.txt.dvc"):
        (tmp_path / name).write_text("outs:\n- md5: ab\n  path: x\n")
    assert tracked_places("a.csv", tmp_path) == [tmp_path / "a.csv"]
    assert tracked_places("*.csv", tmp_path) == [tmp_path, tmp_path / "test.csv", tmp_path / "train.csv"]
    assert tracked_places("rows/*/a.csv", tmp_path) == [tmp_path / "rows"]


def test_without_a_dvc_program_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv.dvc").write_text("outs:\n- md5: ab\n  path: a.csv\n")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(PROGRAM, raising=False)
    with pytest.raises(ConfigurationError, match="there is no dvc program") as refused:
        pull_tracked(tmp_path / "a.csv", tmp_path)
    assert "TRAINWRIGHT_DVC" in refused.value.remedy
    assert pull_tracked(tmp_path / "untracked.csv", tmp_path) is False


CARDS = [
    ("a.csv.md", "license: CC0-1.0", "CC0-1.0"),
    ("README.md", "license:\n- MIT\n- CC0-1.0", "MIT, CC0-1.0"),
    ("a.md", "licence: X", "X"),
]


@pytest.mark.parametrize(("card", "head", "licence"), CARDS)
def test_the_licence_stands_in_a_card_beside_the_data(tmp_path: Path, card: str, head: str, licence: str) -> None:
    (tmp_path / card).write_text(f"---\n{head}\n---\n# Data\n")
    data = {"use": "csv", "args": {"path": "a.csv", "target": "y"}}
    found = origin_evidence(parse_config({"model": {"use": "mlp"}, "data": data}), [tmp_path / "a.csv"], tmp_path)
    assert (found.licence, found.licence_from) == (licence, card)
    named = parse_config({"model": {"use": "mlp"}, "data": {**data, "licence": "mine"}})
    assert origin_evidence(named, [tmp_path / "a.csv"], tmp_path).licence == "mine"


@pytest.mark.long
@pytest.mark.companions("dvc")
def test_absent_data_are_pulled_by_dvc_and_an_unreachable_remote_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRAM, str(DVC))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    root = tmp_path / "repo"
    root.mkdir()
    rows = "x,y\n" + "\n".join(f"{number},{number % 2}" for number in range(40)) + "\n"
    (root / "a.csv").write_text(rows)
    remote = ["remote", "add", "-d", "store", str(tmp_path / "store")]
    for command in (["init", "--no-scm"], remote, ["add", "a.csv"], ["push"]):
        subprocess.run([str(DVC), *command], cwd=root, check=True, capture_output=True)
    digest = tracked_digests([root / "a.csv"], root)["a.csv"]
    (root / "a.csv").unlink()
    for path in (root / ".dvc" / "cache").rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            path.unlink()
    (tmp_path / "store").rename(tmp_path / "away")
    args = {"path": "a.csv", "target": "y"}
    with pytest.raises(DataError, match=r"a\.csv is tracked by DVC and absent") as refused:
        load_source("csv", args, root, SplitSection())
    assert "dvc pull a.csv" in refused.value.remedy
    (tmp_path / "away").rename(tmp_path / "store")
    load_source("csv", args, root, SplitSection())
    assert (root / "a.csv").read_text() == rows
    (root / "a.csv").unlink()
    frame: Any = scan_source("csv", args, root)  # of a reference of drift, nobody loads the file before
    assert frame.collect().height == 40
    (root / "a.csv").unlink()
    load_source("csv", args | {"path": "*.csv"}, root, SplitSection())
    assert (root / "a.csv").is_file(), "a pattern names what DVC tracks, too"
    assert digest.startswith("md5:")
