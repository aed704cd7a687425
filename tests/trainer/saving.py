"""Checkpoints of sessions that stand in a test's own process."""

from __future__ import annotations

from typing import Any

from trainwright.trainer.checkpoints.store import DirectoryStore, LoadedCheckpoint, newest_whole


def checkpoint_of(session: Any, config_digest: str = "") -> LoadedCheckpoint:
    """Save the session's state where its run keeps its checkpoints, and read it back."""
    model, state, tensors = session.state()
    manifest = {"step": session.progress.step, "epoch": 0, "run_id": "run", "config_digest": config_digest}
    store = DirectoryStore(session.run)
    store.save(model=model, tensors=tensors, state=state, manifest=manifest)
    loaded, _ = newest_whole(store, config_digest=config_digest)
    assert loaded is not None
    return loaded
