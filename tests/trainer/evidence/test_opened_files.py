"""A run's record names the user's files that it opened and wrote, whichever process of it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.canonical import digest_bytes, digest_file
from trainwright.trainer.evidence import opened_files
from trainwright.trainer.run.evidence import Code
from trainwright.trainer.run.looked_at import Listing, Opened

READING = """
import json, os
import numpy as np
from pathlib import Path
from safetensors.torch import load_file, save_file
HERE = Path(__file__).parent
class Net(Net):
    def __init__(self):
        super().__init__()
        (HERE / "words.txt").read_text()
        os.close(os.open(HERE / "low.bin", os.O_RDONLY))
        load_file(HERE / "weights.safetensors")
        torch.load(HERE / "weights.pt")
        assert not (HERE / "none.txt").exists()
        np.save(HERE / "cache.npy", np.zeros(3))
        np.load(HERE / "cache.npy")
        torch.save(torch.zeros(3), HERE / "saved.pt")
        torch.load(HERE / "saved.pt")
        save_file({"a": torch.zeros(2)}, HERE / "saved.safetensors")
        (HERE / "part.tmp").write_text("whole")
        os.replace(HERE / "part.tmp", HERE / "whole.txt")
        (HERE / "whole.txt").read_text()
        count = json.loads((HERE / "state.json").read_text())
        (HERE / "state.json").write_text(json.dumps(count + 1))
        with open(HERE / "log.txt", "a") as log:
            log.write("another\\n")
        for name in ("kept.bin", "changed.bin"):
            (HERE / name).read_bytes()
        (HERE / "changed.bin").write_bytes(b"other")
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The user's folder, with files to read."""
    from safetensors.torch import save_file

    root = tmp_path / "project"
    root.mkdir()
    (root / "words.txt").write_text("words")
    (root / "low.bin").write_bytes(b"low")
    save_file({"a": torch.zeros(2)}, root / "weights.safetensors")
    torch.save(torch.ones(2), root / "weights.pt")
    (root / "state.json").write_text("1")
    (root / "log.txt").write_text("one\n")
    (root / "requirements.txt").write_text("torch\n")
    for name in ("kept.bin", "changed.bin"):
        (root / name).write_bytes(bytes(2 << 20))
    return root


@pytest.mark.requirement("GATE-6", "REPRO-4")
def test_files_that_user_code_reads_and_writes_are_named_with_what_they_held_at_first_and_at_last(
    files: Path, ended: Any
) -> None:
    before = {path.name: digest_file(path) for path in files.iterdir()}
    run = ended(READING)
    opened = run.part(Opened)
    read = {"words.txt", "low.bin", "weights.safetensors", "weights.pt", "state.json", "kept.bin"}
    large = {"changed.bin": None}  # and changed before anybody could read it again
    assert {name: file.digest for name, file in opened.files.items()} == {name: before[name] for name in read} | large
    assert opened.files["words.txt"].bytes == 5
    assert all(file.by_user for file in opened.files.values())
    assert "mine.py" in run.part(Code).files
    written = {"cache.npy", "saved.pt", "saved.safetensors", "whole.txt", "state.json", "log.txt", "changed.bin"}
    assert opened.written == {name: digest_file(files / name) for name in written}
    assert opened.written["state.json"] == digest_bytes(b"2")


@pytest.mark.requirement("GATE-6")
def test_a_failed_run_names_what_it_wrote_too(files: Path, ended: Any) -> None:
    run = ended(READING + "        raise ValueError('too late')\n")
    assert run.status().state == "failed"
    assert run.part(Opened).written["state.json"] == digest_bytes(b"2")


IN_LOADERS = """
from pathlib import Path
HERE = Path(__file__).parent
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        (HERE / f"row-{index}.txt").read_text()
        return torch.full((4,), float(index)), index % 2
def data():
    return Rows()
"""


@pytest.mark.requirement("GATE-6")
def test_files_that_loader_workers_read_are_named(tmp_path: Path, ended: Any) -> None:
    (tmp_path / "project").mkdir()
    for index in range(40):
        (tmp_path / "project" / f"row-{index}.txt").write_text(str(index))
    values = {
        "model": {"use": "mine:Net"},
        "data": {"use": "mine:data"},
        "loader": {"batch_size": 8, "num_workers": 2},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    assert len(ended(IN_LOADERS, values).part(Opened).files) == 40


@pytest.mark.requirement("GATE-6")
def test_a_smoke_run_lists_what_is_there_but_for_tools_and_links(tmp_path: Path, ended: Any) -> None:
    root = tmp_path / "project"
    for name in ("data/a.bin", ".cache/b.bin", ".git/HEAD", "deep/__pycache__/c.pyc"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"123")
    (tmp_path / "elsewhere").mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    run = ended("", kind="smoke", max_steps=1)
    listing = run.part(Listing)
    assert listing.files == {
        "mine.py": (root / "mine.py").stat().st_size,
        "data/a.bin": 3,
        ".cache/b.bin": 3,
    }
    assert sorted(listing.unlisted) == [".git", "deep/__pycache__", "linked"]


@pytest.mark.requirement("GATE-6")
def test_a_listing_beyond_its_bound_says_which_folders_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_files, "MAX_LISTED", 2)
    for name in ("a.txt", "b.txt", "c.txt", "first/d.txt", "second/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    listing = opened_files.list_files(tmp_path, ())
    assert sorted(listing.files) == ["a.txt", "b.txt", "c.txt"]
    assert listing.unlisted == ["first", "second"]


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("reads", [True, False])
def test_the_datas_own_file_stands_apart_where_user_code_reads_it_too(
    reads: bool, tmp_path: Path, ended: Any
) -> None:  # fmt: skip
    root = tmp_path / "project"
    root.mkdir()
    lines = [f"{row}.5,{row % 7}.0,{row * 3 % 11}.0,{row % 5}.0,{row % 2}" for row in range(60)]
    (root / "rows.csv").write_text("\n".join(["a,b,c,d,y", *lines]) + "\n")
    reading = """
from pathlib import Path
class Net(Net):
    def __init__(self):
        super().__init__()
        if READS:
            (Path(__file__).parent / "rows.csv").open()
"""
    values = {
        "model": {"use": "mine:Net"},
        "data": {"use": "csv", "args": {"path": "rows.csv", "target": "y"}},
        "training": {"epochs": 1},
        "logging": {"tensorboard": False},
    }
    opened = ended(f"READS = {reads}\n{reading}", values).part(Opened)
    assert (opened.sources, opened.files) == (["rows.csv"] * reads, {})
