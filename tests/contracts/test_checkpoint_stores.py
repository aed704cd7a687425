"""What every store of checkpoints promises: processes are killed in it, and what it has written is damaged."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from trainwright.trainer.base.errors import IntegrityError, StorageError
from trainwright.trainer.checkpoints.index import FILES, checkpoint_name, manifest_digest
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.run import RunDirectory, RunKey
from trainwright.trainer.run.key import has_signed


def damage_file(store: Any, name: str, part: str, change: Callable[[bytes], bytes]) -> None:
    path = store.folder / name / part
    path.write_bytes(change(path.read_bytes()))


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "changed": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "cut": lambda data: data[:-7],
    "empty": lambda data: b"",
}
STATE = {"progress": {"step": 3, "best": None}, "text": "größer", "numbers": [0.1, -0.0, 1e-300]}
KILLS = 40


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[], DirectoryStore]:
    """`opened()` opens the run's store as a new process does."""
    key = RunKey.new()
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)

    def opens() -> DirectoryStore:
        return DirectoryStore(RunDirectory(tmp_path / "run", key))

    return opens


def tensors_of(step: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        "weight": torch.randn(300, 40, generator=generator),
        "half": torch.randn(7, generator=generator).bfloat16(),
        "count": torch.tensor(step),
        "none": torch.empty(0, 3),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
    }


def save_step(store: DirectoryStore, step: int, *, seed: int | None = None) -> dict[str, Any]:
    manifest = {"step": step, "epoch": 1, "run_id": "run", "config_digest": "this"}
    tensors = tensors_of(step if seed is None else seed)
    return store.save(model=tensors, tensors={"moment": tensors["weight"] * 2}, state=STATE, manifest=manifest)


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    return {
        name: (value.dtype, value.shape, value.reshape(-1).view(torch.uint8).numpy().tobytes())
        for name, value in tensors.items()
    }


def in_a_fork(work: Callable[[], None]) -> int:
    """Do the work in a forked process, and return how it ended: 0, 1 where it raised, or a signal's negative."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.requirement("CKPT-1", "CKPT-2")
def test_what_was_saved_is_read_back_bit_for_bit_and_signed(opened: Callable[[], DirectoryStore]) -> None:
    whole = save_step(opened(), 3)
    store = opened()
    assert store.names() == [checkpoint_name(3)]
    assert store.verify(checkpoint_name(3)) == []
    loaded = store.open(checkpoint_name(3))
    assert bits(loaded.model) == bits(tensors_of(3))
    assert bits(loaded.tensors) == bits({"moment": tensors_of(3)["weight"] * 2})
    assert json.dumps(loaded.state) == json.dumps(STATE)
    assert loaded.manifest == whole
    assert whole["digest"] == manifest_digest(whole)
    key = store.run.key  # type: ignore[attr-defined]
    assert has_signed(key.public, whole["digest"], whole["signature"])


@pytest.mark.requirement("CKPT-2")
def test_names_go_by_step_and_a_step_saved_again_is_replaced(opened: Callable[[], DirectoryStore]) -> None:
    store = opened()
    for step in (100, 9, 10):
        save_step(store, step)
    save_step(store, 10, seed=77)
    assert opened().names() == [checkpoint_name(step) for step in (9, 10, 100)]
    assert bits(opened().open(checkpoint_name(10)).model) == bits(tensors_of(77))


@pytest.mark.requirement("CKPT-1")
def test_what_has_no_tag_is_deleted_and_deleting_twice_does_no_harm(opened: Callable[[], DirectoryStore]) -> None:
    store = opened()
    for step in (1, 2, 3, 4, 5):
        save_step(store, step)
    store.tag(best=checkpoint_name(2), last=checkpoint_name(5), periodic=[checkpoint_name(4)])
    assert opened().names() == [checkpoint_name(step) for step in (2, 4, 5)]
    for _ in range(2):
        store.delete(checkpoint_name(4))
    assert opened().names() == [checkpoint_name(step) for step in (2, 5)]
    opened().tag(best=None, last=checkpoint_name(5), periodic=[])
    assert opened().names() == [checkpoint_name(5)]


@pytest.mark.requirement("CKPT-1")
def test_a_link_is_deleted_and_not_what_it_leads_to_and_a_folder_that_stays_is_told(
    tmp_path: Path,
) -> None:
    run, elsewhere = RunDirectory(tmp_path / "run", RunKey.new()), tmp_path / "elsewhere"
    run.checkpoints.mkdir(parents=True)
    store = DirectoryStore(run)
    save_step(store, 1)
    (run.checkpoints / checkpoint_name(1)).rename(elsewhere)
    (run.checkpoints / checkpoint_name(1)).symlink_to(elsewhere)
    store.delete(checkpoint_name(1))
    assert (store.names(), (elsewhere / "manifest.json").is_file()) == ([], True)
    long = "step-" + "1" * 245  # no room for a name that says it is being deleted
    (run.checkpoints / long).mkdir()
    with pytest.raises(StorageError, match="could not be deleted: .*File name too long"):
        store.delete(long)
    assert (run.checkpoints / long).is_dir()


@pytest.mark.requirement("CKPT-2")
@pytest.mark.parametrize("part", [*FILES, "manifest.json"])
@pytest.mark.parametrize("change", CHANGES)
def test_any_damage_is_found_and_the_newest_whole_one_is_taken(
    change: str, part: str, opened: Callable[[], DirectoryStore]
) -> None:
    for step in (1, 2, 3):
        save_step(opened(), step)
    damage_file(opened(), checkpoint_name(3), part, CHANGES[change])
    store = opened()
    problems = store.verify(checkpoint_name(3))
    assert problems
    with pytest.raises(IntegrityError):
        store.open(checkpoint_name(3))
    loaded, skipped = newest_whole(store, config_digest="this")
    assert loaded is not None
    assert (loaded.name, skipped) == (checkpoint_name(2), [{"name": checkpoint_name(3), "problems": problems}])
    nothing, skipped = newest_whole(store, config_digest="another")
    assert (nothing, len(skipped)) == (None, 3)
    save_step(opened(), 3)
    assert opened().verify(checkpoint_name(3)) == [], "the damaged one was replaced"


@pytest.mark.requirement("CKPT-2", "GATE-3")
def test_a_checkpoint_is_not_taken_for_another_configurations_by_an_edit(opened: Callable[[], DirectoryStore]) -> None:
    save_step(opened(), 1)
    damage_file(opened(), checkpoint_name(1), "manifest.json", lambda data: data.replace(b'"this"', b'"another"'))
    assert newest_whole(opened(), config_digest="another")[0] is None


@pytest.mark.requirement("CKPT-1", "REPRO-6")
def test_a_process_killed_anywhere_leaves_the_old_one_or_the_new_one(opened: Callable[[], DirectoryStore]) -> None:
    save_step(opened(), 1)
    calls = counted(opened)
    seen = set()
    for place in range(1, calls, max(1, calls // KILLS)):
        save_step(opened(), 2, seed=20)
        assert in_a_fork(lambda at=place: saved_and_killed(opened(), at)) == -signal.SIGKILL  # type: ignore[misc]
        opened().recover()
        loaded, skipped = newest_whole(opened(), config_digest="this")
        assert loaded is not None
        assert (loaded.name, skipped) == (checkpoint_name(2), [])
        found = bits(loaded.model)
        assert found in (bits(tensors_of(20)), bits(tensors_of(21)))
        seen.add(found == bits(tensors_of(21)))
        opened().tag(best=checkpoint_name(1), last=checkpoint_name(2), periodic=[])
        assert opened().names() == [checkpoint_name(1), checkpoint_name(2)]
    assert False in seen


@pytest.mark.requirement("CKPT-1", "REPRO-6")
def test_a_process_killed_while_it_deletes_leaves_no_half_of_a_checkpoint(
    opened: Callable[[], DirectoryStore],
) -> None:
    save_step(opened(), 1)
    seen = set()
    for place in range(1, 400, 13):
        save_step(opened(), 2)
        store = opened()
        in_a_fork(lambda at=place, of=store: killed(lambda: of.delete(checkpoint_name(2)), at))  # type: ignore[misc]
        loaded, skipped = newest_whole(opened(), config_digest="this")
        assert skipped == []
        assert loaded is not None
        seen.add(loaded.name)
    assert seen == {checkpoint_name(1), checkpoint_name(2)}


def saved_and_killed(store: DirectoryStore, place: int) -> None:
    """Save, and be killed at a call into the interpreter's libraries, whichever it is."""
    killed(lambda: save_step(store, 2, seed=21), place)


def killed(work: Callable[[], object], place: int) -> None:
    number = 0

    def count(frame: Any, event: str, called: Any) -> None:
        nonlocal number
        number += event == "c_call"
        if number == place:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    work()
    sys.setprofile(None)
    os.kill(os.getpid(), signal.SIGKILL)


def counted(opened: Callable[[], DirectoryStore]) -> int:
    """Return how many such calls a save makes."""
    store, number = opened(), 0

    def count(frame: Any, event: str, called: Any) -> None:
        nonlocal number
        number += event == "c_call"

    save_step(store, 2, seed=21)
    sys.setprofile(count)
    try:
        save_step(store, 2, seed=21)
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.requirement("CKPT-1")
def test_a_full_disk_leaves_what_stood(opened: Callable[[], DirectoryStore]) -> None:
    save_step(opened(), 1)
    save_step(opened(), 2, seed=20)

    def without_room() -> None:
        store = opened()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        save_step(store, 2, seed=21)

    assert in_a_fork(without_room) == 1
    opened().recover()
    assert opened().names() == [checkpoint_name(1), checkpoint_name(2)]
    assert bits(opened().open(checkpoint_name(2)).model) == bits(tensors_of(20))


@pytest.mark.requirement("CKPT-2")
def test_nothing_is_pickled(opened: Callable[[], DirectoryStore]) -> None:
    def watched() -> None:
        def refuse(event: str, arguments: Any) -> None:
            if event == "pickle.find_class":
                os._exit(3)

        sys.addaudithook(refuse)
        save_step(opened(), 1)
        opened().open(checkpoint_name(1))

    assert in_a_fork(watched) == 0
