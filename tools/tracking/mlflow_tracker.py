"""MLflow, written with mlflow-skinny: an experiment a project, nested runs, data sets, models by reference."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright.tools.tracking.card import RunCard
from trainwright.tools.tracking.structure import Parent
from trainwright.tools.tracking.tracker import Row, folder_of, mlflow_uri
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import Event

OF_RUN, OF_PARENT = "trainwright.run_id", "trainwright.parent_id"
"""Tags by which a run, or a parent, is found again."""
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
}  # fmt: skip
"""One try of ten seconds: the follower tries again by itself."""
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100
LONGEST_PARAMETER, LONGEST_TAG = 6000, 5000
STATES = {"completed": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "interrupted": "KILLED"}


class MLflow:
    """The workspace's own store, or the server that the owner names."""

    def __init__(self, workspace: Workspace) -> None:
        """Connect. Raises ConfigurationError for an address with a password."""
        os.environ |= QUIET
        from mlflow.tracking import MlflowClient

        folder = folder_of(workspace, "mlflow")
        self._uri = mlflow_uri(workspace, dict(os.environ))
        self._files = (folder / "artifacts").as_uri() if self._uri.startswith("sqlite:") else None
        self._client = MlflowClient(self._uri)
        self._known: dict[str, str] = {}
        """Experiments and parents that were made or found."""

    def run(self, card: RunCard) -> MLflowRun:
        """Return the run, made with its parents."""
        experiment = self._experiment(card.experiment)
        outer = None
        for parent in card.parents:
            outer = self._parent(experiment, parent, outer)
        found = self._found(experiment, OF_RUN, card.run_id) or self._adopted(experiment, card.run_id)
        if found is None:
            tags = {OF_RUN: card.run_id, "mlflow.source.type": "JOB"}
            tags |= {"mlflow.parentRunId": outer} if outer else {}
            begun = int(card.started_at * 1000) or None
            found = str(
                self._client.create_run(experiment, start_time=begun, tags=tags, run_name=card.name).info.run_id
            )
        return MLflowRun(self._client, experiment, found, card)

    def _experiment(self, name: str) -> str:
        if name not in self._known:
            found = self._client.get_experiment_by_name(name)
            made = self._client.create_experiment(name, self._files) if found is None else found.experiment_id
            self._known[name] = str(made)
        return self._known[name]

    def _adopted(self, experiment: str, run_id: str) -> str | None:
        """Return what stands for a run since a child of it was shown first, from now on as the run itself."""
        found = self._found(experiment, OF_PARENT, run_id)
        if found is not None:
            self._client.set_tag(found, OF_RUN, run_id)
        return found

    def _parent(self, experiment: str, parent: Parent, outer: str | None) -> str:
        if parent.id not in self._known:
            found = self._found(experiment, OF_RUN, parent.id) or self._found(experiment, OF_PARENT, parent.id)
            if found is None:
                tags = {OF_PARENT: parent.id, "kind": parent.kind}
                tags |= {"mlflow.parentRunId": outer} if outer else {}
                made = self._client.create_run(experiment, tags=tags, run_name=parent.name)
                self._client.set_terminated(made.info.run_id)
                found = str(made.info.run_id)
            self._known[parent.id] = found
        return self._known[parent.id]

    def _found(self, experiment: str, tag: str, value: str) -> str | None:
        runs = self._client.search_runs([experiment], f"tags.`{tag}` = '{value}'", max_results=1)
        return str(runs[0].info.run_id) if runs else None


class MLflowRun:
    """One run; what is repeated after an error is stored once."""

    def __init__(self, client: Any, experiment: str, run_id: str, card: RunCard) -> None:
        self._client, self._experiment, self._id = client, experiment, run_id
        self._client.update_run(run_id, status="RUNNING", name=card.name)
        self._describe(card)

    def log(self, rows: Sequence[Row]) -> None:
        """Show numbers; those under `system/` are MLflow's system metrics."""
        from mlflow.entities import Metric

        metrics = [Metric(row.key, row.value, int(row.time * 1000), row.step) for row in rows]
        for start in range(0, len(metrics), METRICS_AT_ONCE):
            self._client.log_batch(self._id, metrics=metrics[start : start + METRICS_AT_ONCE])

    def alert(self, alerts: Sequence[Event]) -> None:
        """Show each alert as a tag with its text."""
        for event in alerts:
            name = f"{event.kind}.{event.data.get('id', 'unnamed')}"
            self._client.set_tag(self._id, name[:250], json.dumps(event.data, default=str)[:LONGEST_TAG])

    def finish(self, card: RunCard, artifacts: dict[str, Path]) -> None:
        """Show results, data sets, the model by reference, and files; end the run."""
        from mlflow.entities import Metric

        self._describe(card)
        end = int(float(card.metadata.get("ended_at") or card.started_at) * 1000)
        self._client.log_batch(self._id, metrics=[Metric(f"summary/{k}", v, end, 0) for k, v in card.metrics.items()])
        self._data_sets(card)
        self._model(card)
        for name, path in artifacts.items():
            self._client.log_artifact(self._id, str(path), name.rpartition("/")[0])
        self._client.set_terminated(self._id, STATES.get(str(card.metadata.get("state")), "FINISHED"), end)

    def close(self) -> None:
        """Nothing is held."""

    def _describe(self, card: RunCard) -> None:
        from mlflow.entities import Param, RunTag

        found = self._client.get_run(self._id).data.params
        values = {name: _text(value)[:LONGEST_PARAMETER] for name, value in card.parameters.items()}
        new = [Param(name, value) for name, value in values.items() if name not in found and value]
        for start in range(0, len(new), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._id, params=new[start : start + PARAMETERS_AT_ONCE])
        self._client.log_batch(self._id, tags=[RunTag(name, value) for name, value in _tags(card).items()])

    def _data_sets(self, card: RunCard) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(
                    name=f"{card.experiment} {card.data.get('version', '')} {split}".replace("  ", " "),
                    digest=str(card.data[f"{split}.fingerprint"])[-36:],
                    source_type="local",
                    source=_text(card.data.get("source", "")),
                    profile=json.dumps({"num_rows": card.data.get(f"{split}.size")}),
                ),
                [InputTag("mlflow.data.context", split)],
            )
            for split in ("train", "validation", "test")
            if card.data.get(f"{split}.fingerprint")
        ]
        if inputs and not self._client.get_run(self._id).inputs.dataset_inputs:
            self._client.log_inputs(self._id, inputs)

    def _model(self, card: RunCard) -> None:
        weights = card.artifacts.get("weights of the best epoch")
        if weights is None or self._client.get_run(self._id).data.tags.get("trainwright.model"):
            return
        tags = {"weights": weights, "digest": card.artifacts.get("digest of the last weights", "")}
        made = self._client.create_logged_model(
            self._experiment, name=card.name.split()[0], source_run_id=self._id, tags=tags, model_type="pytorch"
        )
        self._client.finalize_logged_model(made.model_id, "READY")
        self._client.set_tag(self._id, "trainwright.model", made.model_id)


def _tags(card: RunCard) -> dict[str, str]:
    """Return the run's tags: where it stands, then all else of its card in MLflow's names or ours."""
    found = dict.fromkeys(card.tags, "true") | {"purpose": ", ".join(card.tags)}
    found |= {f"data.{name}": _text(value) for name, value in card.data.items()}
    found |= {f"environment.{name}": _text(value) for name, value in card.environment.items()}
    found |= {name: _text(value) for name, value in card.metadata.items()}
    found |= {"missing": "; ".join(card.missing)} if card.missing else {}
    known = {"mlflow.user": "author", "mlflow.source.git.commit": "commit", "mlflow.note.content": "intent"}
    found |= {name: found[ours] for name, ours in known.items() if ours in found}
    return {name: value[:LONGEST_TAG] for name, value in found.items() if value}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
