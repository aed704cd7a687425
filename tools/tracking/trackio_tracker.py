"""Trackio: its local store in the workspace; a row sent twice is stored once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trainwright.tools.tracking.tracker import folder_of
from trainwright.trainer.base.canonical import digest_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainwright.tools.tracking.card import RunCard
    from trainwright.tools.tracking.tracker import Row
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import Event
    from trainwright.trainer.run.histograms import Histogram

LEVELS = {"critical": "error", "warning": "warn"}


class Trackio:
    """One project of Trackio for each of ours."""

    def __init__(self, workspace: Workspace) -> None:
        """Keep its files in the workspace: nothing goes to a hub."""
        folder = folder_of(workspace, "trackio")
        folder.mkdir(parents=True, exist_ok=True)
        os.environ |= {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}

    def run(self, card: RunCard) -> TrackioRun:
        """Return the run."""
        from trackio.sqlite_storage import SQLiteStorage

        return TrackioRun(SQLiteStorage, card)


class TrackioRun:
    """One run, by our own id."""

    def __init__(self, store: Any, card: RunCard) -> None:
        self._store, self._card = store, card
        self._config = _config(card)

    def log(self, rows: Sequence[Row]) -> None:
        """Show numbers, those of one step together."""
        steps: dict[int, list[Row]] = {}
        for row in rows:
            steps.setdefault(row.step, []).append(row)
        groups = [steps[step] for step in sorted(steps)]
        self._write([{row.key: row.value for row in group} for group in groups], groups)

    def histograms(self, histograms: Sequence[Histogram]) -> None:
        """Show those of one step together, as Trackio stores its own."""
        steps: dict[int, list[Histogram]] = {}
        for each in histograms:
            steps.setdefault(each.step, []).append(each)
        groups = [steps[step] for step in sorted(steps)]
        self._write([{each.key: _stored(each) for each in group} for group in groups], groups)

    def alert(self, alerts: Sequence[Event]) -> None:
        """Show each alert."""
        self._store.bulk_alert(
            project=self._card.experiment,
            run=self._card.name,
            titles=[str(event.data.get("id", event.kind)) for event in alerts],
            texts=[str(event.data) for event in alerts],
            levels=[LEVELS.get(str(event.data.get("severity")), "info") for event in alerts],
            steps=[event.data.get("step") for event in alerts],
            timestamps=[_iso(event.time) for event in alerts],
            alert_ids=[digest_json([self._card.run_id, event.model_dump(mode="json")])[-32:] for event in alerts],
            run_id=self._card.run_id,
        )

    def finish(self, card: RunCard, artifacts: dict[str, Path]) -> None:  # noqa: ARG002 - it shows numbers
        """Show the results at the last step."""
        from trainwright.tools.tracking.tracker import Row

        self._card, self._config = card, _config(card)
        ended = float(card.metadata.get("ended_at") or card.started_at)
        step = int(card.metadata.get("last_step", 0))
        rows = [Row(f"summary/{name}", step, value, ended) for name, value in card.metrics.items()]
        if rows:
            self._write([{row.key: row.value for row in rows}], [rows])

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, metrics: list[dict[str, Any]], groups: Sequence[Sequence[Row | Histogram]]) -> None:
        self._store.bulk_log(
            project=self._card.experiment,
            run=self._card.name,
            metrics_list=metrics,
            steps=[group[0].step for group in groups],
            timestamps=[_iso(group[0].time) for group in groups],
            config=self._config,
            log_ids=[
                digest_json([self._card.run_id, group[0].step, sorted(row.key for row in group)])[-32:]
                for group in groups
            ],
            run_id=self._card.run_id,
        )


def _config(card: RunCard) -> dict[str, Any]:
    names = [parent.name for parent in card.parents]
    parents = {"_Group": names[0], "parents": names} if names else {}
    return {
        **card.parameters, **parents, "tags": card.tags, "data": card.data, "environment": card.environment,
        "metadata": card.metadata, "artifacts": card.artifacts,
    }  # fmt: skip


def _stored(histogram: Histogram) -> dict[str, Any]:
    counts, edges = histogram.dense()
    return {"_type": "trackio.histogram", "bins": edges, "values": counts}


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat()
