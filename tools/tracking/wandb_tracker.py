"""Weights & Biases: online only by the key in the server's environment, else offline files for `wandb sync`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.tools.tracking.card import RunCard
from trainwright.tools.tracking.tracker import Row, folder_of
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import Event, write_atomically

KEY = "WANDB_API_KEY"
STEP = "trainer/step"
PAGE = "page.json"
"""File that holds the address of the runs' page."""
QUIET = {
    "WANDB_SILENT": "true",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_DISABLE_CODE": "true",
    "WANDB_ERROR_REPORTING": "false",
}
LEVELS = {"critical": "ERROR", "warning": "WARN"}


class WeightsAndBiases:
    """One project of Weights & Biases for each of ours; a run's outermost parent is its group."""

    def __init__(self, workspace: Workspace) -> None:
        """Keep its files in the workspace."""
        os.environ |= QUIET
        self._folder = folder_of(workspace, "wandb")
        self._folder.mkdir(parents=True, exist_ok=True)

    def run(self, card: RunCard) -> WandbRun:
        """Return the run under our own id, so that what is sent twice goes to one run."""
        import wandb

        settings = wandb.Settings(
            console="off", x_disable_stats=True, x_disable_meta=True, x_save_requirements=False, silent=True,
            init_timeout=30, disable_git=True, save_code=False, program="trainwright",
        )  # fmt: skip
        run = wandb.init(
            project=card.experiment,
            id=card.run_id,
            name=card.name,
            tags=card.tags,
            group=card.parents[0].name if card.parents else None,
            job_type=str(card.metadata.get("kind")),
            notes=str(card.metadata.get("intent", "")),
            config={**card.parameters, "parents": [parent.name for parent in card.parents]},
            dir=str(self._folder),
            mode="online" if os.environ.get(KEY) else "offline",
            resume="allow" if os.environ.get(KEY) else None,
            reinit="create_new",
            settings=settings,
        )
        if address := run.project_url:  # online
            write_atomically(self._folder / PAGE, json.dumps({"address": address}).encode())
        run.define_metric(STEP)
        run.define_metric("*", step_metric=STEP)
        return WandbRun(run)


class WandbRun:
    """One run. Steps are a value of their own: rows of one step may come at different times."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, rows: Sequence[Row]) -> None:
        """Show numbers, those of one step together."""
        steps: dict[int, dict[str, float]] = {}
        for row in rows:
            steps.setdefault(row.step, {})[row.key] = row.value
        for step, values in sorted(steps.items()):
            self._run.log({**values, STEP: step})

    def alert(self, alerts: Sequence[Event]) -> None:
        """Send each alert."""
        for event in alerts:
            level = LEVELS.get(str(event.data.get("severity")), "INFO")
            self._run.alert(
                title=str(event.data.get("id", event.kind)), text=json.dumps(event.data, default=str), level=level
            )
            self._run.summary[f"{event.kind}/{event.data.get('id', 'unnamed')}"] = event.data.get("step")

    def finish(self, card: RunCard, artifacts: dict[str, Path]) -> None:
        """Show results, metadata and files; end the run."""
        self._run.summary.update(card.metrics)
        self._run.config.update(
            {**card.parameters, "data": card.data, "environment": card.environment, "metadata": card.metadata,
             "artifacts": card.artifacts, "missing": card.missing},
            allow_val_change=True,
        )  # fmt: skip
        base = os.path.commonpath([str(path.parent) for path in artifacts.values()]) if artifacts else None
        for path in artifacts.values():
            self._run.save(str(path), base_path=base, policy="now")
        self._run.finish(exit_code=0 if card.metadata.get("state") in {"completed", "stopped"} else 1)

    def close(self) -> None:
        """Let it go: what it has is written or sent."""
        self._run.finish()
