"""Stages of a project as its evidence has them: what each took in, what it gave, and whether that still holds.

Nothing is stored. A stage is done while its record is sealed and what it took in is unchanged; then `next` does not
propose its runs again. Outputs are digests and figures of content alone, so the same data, code and configuration give
the same outputs on the next day too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import accepted_decisions, phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import changes_around, file_changes
from trainwright.tools.ledger import Look
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.versions import card_of, diff_text, diff_versions, version_named, version_of
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.artifacts import FixedRows, Program
from trainwright.trainer.run.validation import Validation

STAGES = ("ingestion", "validation", "features", "training", "evaluation", "registration")
NAMED = ("model.onnx", "model.pt2", "model.safetensors", "config.yaml", "resolved.json")
"""Files of the final model whose content follows from the training alone; cards and signatures bear dates."""
State = Literal["done", "stale", "failed", "under way", "open"]


class Stage(Frozen):
    """One step of a project."""

    name: str
    state: State
    runs: list[str] = Field(default_factory=list)
    """Whose sealed records show it."""
    inputs: dict[str, Any] = Field(default_factory=dict)
    """What it took in: digests by name."""
    outputs: dict[str, Any] = Field(default_factory=dict)
    """What it gave: digests and figures, of content alone."""
    reasons: list[str] = Field(default_factory=list)
    """Why it is not done."""

    def record(self) -> dict[str, Any]:
        """Return its outputs, as a file for pipelines: the same where it gave the same, whatever it took in."""
        return {"stage": self.name, **self.outputs}


def stages_of_project(workspace: Workspace, project: str) -> list[Stage]:
    """Return the stages of a project, in order. Raises NotFoundError."""
    refresh_project(workspace, project)
    with workspace.session() as session:
        return Stages(Evidence(session, workspace, project, inspection=Look())).all()


class Stages:
    """The stages of one project, from its evidence."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.status = phase_status_of(evidence)

    def all(self) -> list[Stage]:
        """Return all of them; one whose predecessors are not done is not done either."""
        found: list[Stage] = []
        for name in STAGES:
            stage = MAKERS[name](self)
            before = next((each for each in found if each.state != "done"), None)
            if stage.state == "done" and before is not None:
                stage = stage.model_copy(update={"state": "stale", "reasons": [f"{before.name} is {before.state}"]})
            found.append(stage)
        return found

    @cached_property
    def ingested(self) -> RunEvidence | None:
        """The newest completed smoke run that read the data as they are now, by the same keys; else the newest."""
        evidence, found = self.evidence, []
        for run_id, start in reversed(evidence.facts.started.items()):
            run = evidence.run(run_id) if start.kind == RunKind.SMOKE else None
            if run is not None and _reads_alike(evidence, run):
                if run.is_complete and not self.changes(run):
                    return run
                found.append(run)
        return found[0] if found else None

    def changes(self, run: RunEvidence) -> list[str]:
        """Return what changed of the data that a run read, and of the code where the user's makes them."""
        root, evidence = Path(self.evidence.project.code_root), self.evidence
        found = file_changes(root, run, evidence.inspection.digest)
        config = evidence.config
        has_code = config.task is not None or (config.data is not None and ":" in config.data.use)
        return [one for one in found if has_code or one.startswith("data:")]

    def of_smoke(self, name: str, outputs: Callable[[RunEvidence], dict[str, Any]], inputs: dict[str, Any]) -> Stage:
        """Return a stage that a smoke run is."""
        run = self.ingested
        if run is None:
            return Stage(name=name, state="open", inputs=inputs, reasons=["no smoke run has read these data"])
        if not run.is_complete:
            return Stage(name=name, **_of_run(run), runs=[run.id], inputs=inputs)
        reasons = self.changes(run)
        state: State = "stale" if reasons else "done"
        return Stage(name=name, state=state, runs=[run.id], inputs=inputs, outputs=outputs(run), reasons=reasons)

    @property
    def fingerprint(self) -> str | None:
        """The digest of the data that were ingested."""
        return self.ingested.data.fingerprint if self.ingested is not None else None

    @property
    def passed(self) -> dict[str, str]:
        """Phase to the status of its gate."""
        return {gate.phase.value: gate.status for gate in self.status.gates}

    def since_decision(self, phase: Phase) -> list[str]:
        """Return what changed under the newest accepted decision on a gate; empty without one."""
        decided = accepted_decisions(self.evidence).get(phase)
        return changes_around(self.evidence, decided[1]["rested_on"]) if decided is not None else []


def _reads_alike(evidence: Evidence, run: RunEvidence) -> bool:
    """Whether a run's plan reads the data as the present configuration does."""
    config = run.directory.specification().config
    return (config.data, config.task) == (evidence.config.data, evidence.config.task)


def _of_run(run: RunEvidence) -> dict[str, Any]:
    state = run.status.state
    if not state.is_ended:
        return {"state": "under way", "reasons": [f"{run.id} is {state.value}"]}
    failure = run.status.failure
    why = f": {failure.message}" if failure is not None else ""
    reasons = [f"{run.id} is {state.value}{why}"]
    return {"state": "open" if state is RunState.COMPLETED else "failed", "reasons": reasons}


def _ingestion(stages: Stages) -> Stage:
    config = stages.evidence.config
    section = config.data or config.task
    inputs = {"configuration": digest_json(section.model_dump(mode="json") if section is not None else None)}

    def outputs(run: RunEvidence) -> dict[str, Any]:
        splits = {
            name: {"rows": split.size, "fingerprint": split.fingerprint} for name, split in run.data.splits.items()
        }
        return {"data": run.data.fingerprint, "splits": splits}

    found = stages.of_smoke("ingestion", outputs, inputs)
    run = stages.ingested
    return found.model_copy(update={"inputs": inputs | ({"files": digest_json(run.data.files)} if run else {})})


def _validation(stages: Stages) -> Stage:
    def outputs(run: RunEvidence) -> dict[str, Any]:
        checks = [
            {"name": one.name, "column": one.column, "passed": one.passed, "value": one.value}
            for one in run.part(Validation).report.checks
        ]
        own = {"disjoint": run.data.disjoint, "shared_samples": run.data.shared_samples}
        return {
            **own,
            "checks": len(checks),
            "failed": sum(not one["passed"] for one in checks),
            "verdicts": digest_json(checks),
        }

    return stages.of_smoke("validation", outputs, {"data": stages.fingerprint})


def _features(stages: Stages) -> Stage:
    def outputs(run: RunEvidence) -> dict[str, Any]:
        rows = run.part(FixedRows)
        arrays = {
            name: [*(array.digest for array in split.inputs.values()), split.target.digest if split.target else None]
            for name, split in rows.splits.items()
        }
        return {"preprocessing": run.data.preprocessing_digest, "fixed_rows": digest_json(arrays)}

    return stages.of_smoke("features", outputs, {"data": stages.fingerprint})


def _training(stages: Stages) -> Stage:
    evidence, run = stages.evidence, stages.evidence.final
    inputs = {"data": stages.fingerprint, "configuration": evidence.config_digest}
    if run is None:
        gates = ", ".join(f"{phase} {status}" for phase, status in stages.passed.items() if status != "closed")
        return Stage(name="training", state="open", inputs=inputs, reasons=[f"no final run yet: {gates}"])
    inputs |= {"code": run.code.meaning or run.code.digest, "packages": run.environment.packages_digest}
    if not run.is_complete:
        return Stage(name="training", **_of_run(run), runs=[run.id], inputs=inputs)
    reasons = stages.since_decision(Phase.OPTIMIZATION)
    outputs = {"weights": run.summary.weights_digest, "epochs": run.summary.epochs, "steps": run.summary.steps}
    state: State = "stale" if reasons else "done"
    return Stage(name="training", state=state, runs=[run.id], inputs=inputs, outputs=outputs, reasons=reasons)


def _evaluation(stages: Stages) -> Stage:
    evidence, run = stages.evidence, stages.evidence.export
    weights = evidence.final.summary.weights_digest if evidence.final is not None else None
    inputs = {"weights": weights, "bounds": digest_json(_gate(evidence))}
    if run is None:
        return Stage(name="evaluation", state="open", inputs=inputs, reasons=["the final run is not exported yet"])
    if not run.is_complete:
        return Stage(name="evaluation", **_of_run(run), runs=[run.id], inputs=inputs)
    found = run.evaluation
    metrics = {split: run.certified(split) for split in ("validation", "test") if run.certified(split)}
    if not metrics:
        metrics = {
            "reported_test": run.exported.test.metrics or {},
            "reported_validation": run.exported.validation.metrics or {},
        }
    outputs = {"program": run.part(Program).digest, "metrics": metrics}
    if found is not None and found.problem:
        outputs["not_certified"] = found.problem
    return Stage(name="evaluation", state="done", runs=[run.id], inputs=inputs, outputs=outputs)


def _gate(evidence: Evidence) -> dict[str, Any] | None:
    gate = evidence.config.evaluation_gate
    return gate.model_dump(mode="json") if gate is not None else None


def _registration(stages: Stages) -> Stage:
    evidence, release = stages.evidence, stages.status.release
    inputs = {"program": evidence.export.part(Program).digest if evidence.export is not None else None}
    if release is None:
        reasons = [f"the gate of finalization is {stages.passed.get('finalization', 'closed')}"]
        return Stage(name="registration", state="open", inputs=inputs, reasons=reasons)
    files = {name.partition("/")[2]: digest for name, digest in release.files.items()}
    outputs = {"model": {name: files[name] for name in NAMED if name in files}}
    return Stage(name="registration", state="done", inputs=inputs, outputs=outputs)


MAKERS: dict[str, Callable[[Stages], Stage]] = {
    "ingestion": _ingestion,
    "validation": _validation,
    "features": _features,
    "training": _training,
    "evaluation": _evaluation,
    "registration": _registration,
}


def version_text(evidence: Evidence, stages: Stages) -> str:
    """Return the data version that was ingested: `v2 of 1200 rows`; empty before."""
    found = version_of(evidence.data_versions, stages.fingerprint)
    return f"{found.name} of {found.told}" if found is not None else ""


# Documents on a project's stages and data, as resources show them: Markdown, and the files of its pipeline.

TO = ".."


def pipeline_document(workspace: Workspace, project: str) -> str:
    """Return the stages of a project in Markdown. Raises NotFoundError."""
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        stages = Stages(evidence)
        return render(
            "pipeline/pipeline.md.j2", project=project, stages=stages.all(), version=version_text(evidence, stages)
        )


def data_document(workspace: Workspace, project: str, which: str) -> str:
    """Return the card of a data version (`v2`, `latest`), or what differs between two (`v1..v2`).

    Raises NotFoundError.
    """
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        versions, facts = evidence.data_versions, evidence.facts
    first, _, second = which.partition(TO)
    version = version_named(versions, first, project)
    if not second:
        return card_of(workspace, facts, project, versions, version)
    other = version_named(versions, second, project)
    return f"# Data of {project}\n\n{diff_text(diff_versions(workspace, facts, project, version, other))}"
