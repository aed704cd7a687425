"""Evidence of a project as the server recorded it, gathered for the checks. Nothing here comes from an agent."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.answers import NextCall
from trainwright.tools.evaluation.baseline import baseline_record
from trainwright.tools.gates.checklist import CheckLine, load_checklist
from trainwright.tools.gates.exits import spent_limit
from trainwright.tools.gates.finals import final_of, is_as_asked
from trainwright.tools.gates.improvement import measure_improvement, study_that_counts
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.releases import BEGUN, Release, releases, witnesses
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.served_code import served_code_changes
from trainwright.tools.gates.staleness import changes_of_surroundings
from trainwright.tools.ledger import Inspection, cut_off, entries
from trainwright.tools.limits import Line, count_trials, limit_table, limits_under
from trainwright.tools.owner import Grant
from trainwright.tools.owner.grants import DECISION, goal_under, standing_grants
from trainwright.tools.versions import DataVersion, data_versions
from trainwright.tools.workspace import Settings, Workspace
from trainwright.tools.workspace.query_cache import BEFORE_COMMIT
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.tools.workspace.tables import ConfigVersion, Project, Run, Study
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.config import TrainingConfig, config_digest, parse_config
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.digests import remembered_digest

T = TypeVar("T")


def refuse_edits(differences: list[str]) -> None:
    """Raise IntegrityError when the database differs from the ledger."""
    if differences:
        raise IntegrityError(
            f"The workspace was edited by hand: {'; '.join(differences[:3])}.",
            remedy="The workspace's owner undoes the edit; `trainwright verify WORKSPACE` names all of them.",
        )


class Evidence:
    """Everything recorded about one project, read once."""

    def __init__(
        self, session: Session, workspace: Workspace, project: str, *, before: int | None = None,
        inspection: Inspection | None = None, concludes: bool = False, code_root: Path | None = None,
        code_state: str | None = None,
    ) -> None:  # fmt: skip
        """Read the ledger, up to the entry `before` if given. Raises NotFoundError, IntegrityError.

        Args:
            concludes: the agent chose to end optimization below the goal; a choice, and no evidence.
            code_root: the folder that the gates are held to; by default the project's. Of a snapshot with its digest.
        """
        self.session = session
        self.workspace = workspace
        self.project = get_project(session, project)
        self.before = before
        self.concludes = concludes
        self.takes_separated = True
        self.code_state, self._code_root = code_state, code_root
        self._settings = workspace.settings  # another call of the same server may reload them meanwhile
        self.inspection = inspection or Inspection(remembered_digest)
        self._found: dict[Hashable, Any] = {}
        self.facts = self.inspection.facts(session, workspace, project, before)
        if before is None:
            refuse_edits(cut_off(session, workspace, project) + self.facts.rows.differences(self.project))
        else:
            self.project = self.facts.rows.find(Project, project) or self.project

    @property
    def name(self) -> str:
        """The project's name."""
        return self.project.name

    @property
    def folder(self) -> Path:
        """The project's folder."""
        return self.workspace.project_folder(self.name)

    @property
    def settings(self) -> Settings:
        """The owner's settings when this was read. Checks read them here: a decision is derived again under its own."""
        return self._settings

    def lines(self, phase: Phase) -> list[CheckLine]:
        """Return the present lines of a phase's checklist. Raises NotFoundError or ConfigurationError."""
        return load_checklist(phase).checks

    @cached_property
    def grants(self) -> list[Grant]:
        """The owner's grants to the project that are in force."""
        return standing_grants(self.answers, self.settings)

    @property
    def answers(self) -> list[dict[str, Any]]:
        """The owner's answers, in order."""
        return [body for _, body in self.entries(DECISION)]

    @cached_property
    def limits(self) -> ProjectLimits:
        """The project's limits, under the owner's settings and grants."""
        return limits_under(self.settings, self.project.limits, self.grants)

    @cached_property
    def trials_left(self) -> int:
        """How many trials the limits of project and workspace leave."""
        self.inspection.sources.are_all_projects = True
        own, whole = count_trials(self.session, self.name), count_trials(self.session)
        allowed = self.limits.trials
        left = (allowed - own.made - own.reserved, self.settings.workspace_limits.trials - whole.made - whole.reserved)
        return max(0, min(left))

    @cached_property
    def seconds_left(self) -> float | None:
        """How many seconds of runs the limits of project and workspace leave; what is under way counts as left."""
        lines = self.limit_lines["wall_clock_seconds"]
        return min((line.allowed - line.used for line in lines), default=None)

    @cached_property
    def limit_lines(self) -> dict[str, list[Line]]:
        """The limits of project and workspace, and what is used of them now."""
        lines = limit_table(self.session, self.workspace, self.project)
        self.inspection.sources.are_all_projects = True
        if any(line.used for line in lines["runs_at_once"]):
            self.inspection.sources.are_fleeting = True  # a run under way uses more while nothing is written
        return lines

    @cached_property
    def spent(self) -> str:
        """Which limit leaves no room for another trial, in a few words; empty where all leave it."""
        return spent_limit(self)

    def entries(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        """Return (sequence, body) of the project's ledger entries of a kind, in order."""
        if self.session.info.get(BEFORE_COMMIT) or kind in self.facts.damaged:  # appended since; or raises
            return entries(self.session, self.name, kind, before=self.before)
        return self.facts.entries.get(kind, [])

    @cached_property
    def begun(self) -> list[int]:
        """Ledger sequences at which work on a further release began, in order."""
        return [sequence for sequence, _ in self.entries(BEGUN)]

    @cached_property
    def releases(self) -> list[Release]:
        """The releases so far, in order; work on the next may have begun."""
        return releases(self.entries("gate"), self.begun)

    @property
    def reference(self) -> Release | None:
        """The release before the one under way: new results are compared with it."""
        return next((release for release in self.releases if release.number == len(self.begun)), None)

    @property
    def decisions(self) -> list[tuple[int, dict[str, Any]]]:
        """The gate decisions of the present release, as (ledger sequence, body) in order."""
        start = self.begun[-1] if self.begun else 0
        return [(sequence, body) for sequence, body in self.entries("gate") if sequence > start]

    @property
    def code_root(self) -> Path:
        """The folder of code and data that the gates are held to."""
        return self._code_root or Path(self.project.code_root)

    def surroundings(self, run: RunRecords) -> list[str]:
        """Return one sentence for every file of code or data, and package, that changed since the run saw them.

        Of a smoke run whose plan was carried over: since the newest replay that did.
        """

        def changes() -> list[str]:
            return changes_of_surroundings(str(self.code_root), witnesses(self, run)[-1], self.inspection)

        return self.once(("surroundings", run.id), changes)

    def served_changes(self, run: RunRecords) -> list[str]:
        """Return the files of `data.prepare` and `data.present` that changed since the run tried or shipped them."""
        found = partial(served_code_changes, self.config.data, str(self.code_root), run, self.inspection.sources)
        return self.once(("served", run.id), found)

    def once(self, what: Hashable, find: Callable[[], T]) -> T:
        """Return what was found of this name, found once for all that is derived from this evidence."""
        if what not in self._found:
            self._found[what] = find()
        found: T = self._found[what]
        return found

    def artifact_digest(self, name: str) -> str | None:
        """Return the digest of a file in the project folder, or None when it is gone."""
        path = self.folder / name
        return self.inspection.digest(path) if path.is_file() else None

    @cached_property
    def goal(self) -> dict[str, Any]:
        """The present goal: {metric, direction, target}, the target as the owner has revised it."""
        return goal_under(self.project.goal, self.grants)

    @property
    def goal_metric(self) -> str:
        """The metric that the project's goal names."""
        return str(self.project.goal["metric"])

    @cached_property
    def version(self) -> ConfigVersion:
        """The present configuration version. Raises IntegrityError when its row differs from the ledger."""
        version = latest_config(self.session, self.name, up_to=max(self.facts.configurations) if self.before else None)
        refuse_edits(self.facts.rows.differences(version))
        if version.number != max(self.facts.configurations):
            refuse_edits([f"project {self.name}: the newest configuration was removed from the database"])
        return version

    @cached_property
    def config(self) -> TrainingConfig:
        """That version, parsed. Raises ConfigurationError."""
        return parse_config(self.version.values)

    @cached_property
    def config_digest(self) -> str:
        """That version's digest, computed again from its values. Raises ConfigurationError."""
        return config_digest(self.config)

    @cached_property
    def _rows(self) -> dict[str, Run]:
        return {row.id: row for row in self.session.scalars(select(Run).where(Run.project == self.name))}

    def run(self, run_id: str) -> RunEvidence | None:
        """Return the evidence of one run of this project, or None."""
        row = self._rows.get(run_id) or self.session.get(Run, run_id)
        if row is None or row.project != self.name:
            return None
        return RunEvidence(row, self.workspace.run_directory(self.name, run_id), self)

    def newest(self, kind: RunKind, *, config: str | None = None, source: str | None = None) -> RunEvidence | None:
        """Return the newest run of a kind that belongs to no study; completed ones come first."""
        ids = [
            run_id
            for run_id, start in self.facts.started.items()
            if start.kind == kind.value
            and not start.permit.get("is_short")
            and start.study is None
            and (config is None or start.config_digest == config)
            and (source is None or start.source_run == source)
        ]
        found = [run for run_id in reversed(ids) if (run := self.run(run_id)) is not None]
        if kind is RunKind.EXPORT:
            found = [run for run in found if is_as_asked(self, run)]
        return next((run for run in found if run.is_complete), found[0] if found else None)

    @cached_property
    def data_versions(self) -> list[DataVersion]:
        """The contents of the project's data that its smoke runs have seen, in order."""
        return data_versions(self.workspace, self.facts, self.name)

    @cached_property
    def named_baseline(self) -> dict[str, str]:
        """The run that the evaluation gate compares with, and its program, or a `problem`; empty without one."""
        gate = self.config.evaluation_gate
        if gate is None or gate.baseline is None:
            return {}
        self.inspection.sources.are_all_projects = True
        return baseline_record(self.workspace, gate.baseline, self.name)

    @cached_property
    def smoke(self) -> RunEvidence | None:
        """The smoke run of the present configuration."""
        return self.newest(RunKind.SMOKE, config=self.config_digest)

    @cached_property
    def baseline(self) -> RunEvidence | None:
        """The baseline run of the present configuration."""
        return self.newest(RunKind.BASELINE, config=self.config_digest)

    @cached_property
    def study(self) -> Study | None:
        """The newest study on the present configuration; validated ones come first, then completed ones."""
        searches = [row for row in reversed(self.facts.rows.of(Study)) if not row.is_ablation]
        newest_first = [row for row in searches if row.base_config_digest == self.config_digest]
        return study_that_counts(newest_first, self.entries("study"))

    @cached_property
    def confirmation(self) -> dict[str, Any]:
        """The study's repetitions by its ledger entry; empty before it has completed."""
        bodies = [body for _, body in self.entries("study")]
        own = [body for body in bodies if self.study is not None and body["study_id"] == self.study.id]
        return dict(own[-1].get("confirmation") or {}) if own else {}

    @cached_property
    def improvement(self) -> tuple[dict[str, Any], list[str]]:
        """The study's improvement over seeds, and the problems in measuring it (`measure_improvement`)."""
        return measure_improvement(self)

    def reaches_goal(self, value: float | None) -> bool:
        """Return whether a value of the goal metric meets the project's target."""
        if value is None:
            return False
        target = float(self.goal["target"])
        return value >= target if self.goal["direction"] == "maximize" else value <= target

    @property
    def goal_text(self) -> str:
        """The goal in words: `validation accuracy >= 0.97`."""
        sign = ">=" if self.goal["direction"] == "maximize" else "<="
        whole = f"validation {self.goal_metric} {sign} {self.goal['target']}"
        first = self.project.goal["target"]
        return whole if self.goal["target"] == first else f"{whole} (revised by the owner from {first})"

    @cached_property
    def final_values(self) -> dict[str, Any] | None:
        """The configuration fixed by the optimization gate, or None before it has passed."""
        decided = [body for _, body in self.decisions if body["phase"] == "optimization"]
        accepted = [body for body in decided if body["outcome"] != "refused"]
        return accepted[-1]["final_values"] if accepted else None

    @cached_property
    def final(self) -> RunEvidence | None:
        """The run that leaves the house: a final run of the final configuration, or the baseline that is it already."""
        found = final_of(self)
        return self.run(found) if found is not None else None

    @cached_property
    def replay(self) -> RunEvidence | None:
        """The replay of the final run."""
        return self.newest(RunKind.REPLAY, source=self.final.id) if self.final else None

    @cached_property
    def export(self) -> RunEvidence | None:
        """The export of the final run in the formats that the configuration asks for."""
        return self.newest(RunKind.EXPORT, source=self.final.id) if self.final else None

    def final_value(self, metric: str) -> float | None:
        """Return a validation metric of the final model: of its exported program where it is certified, else its run's.

        None without a final run.
        """
        if self.final is None:
            return None
        exported = self.export.certified() if self.export is not None and self.export.is_complete else {}
        return exported.get(metric, self.final.best_value(metric))

    def call(self, tool: str, why: str, **arguments: Any) -> NextCall:
        """Name the next call on this project."""
        return NextCall(tool=tool, arguments={"project": self.name, **arguments}, why=why)

    def start(self, kind: RunKind) -> NextCall:
        """Name the call that starts a run of this kind, or follows the one that is under way."""
        if (run := self._under_way(kind)) is not None:
            return run.next_call()
        exists = any(start.kind == kind.value for start in self.facts.started.values())
        why = (
            f"the {kind.value} run must be made anew" if exists else f"no {kind.value} run of this configuration exists"
        )
        return self.call("start_training", why, kind=kind.value)

    def _under_way(self, kind: RunKind) -> RunEvidence | None:
        """Return the run of this kind and of the present configuration that has not ended, as a second would repeat it.

        A final run has the configuration of its overlay: any of them counts.
        """
        same = self.config_digest if kind is not RunKind.FINAL else None
        for run_id, start in self.facts.started.items():
            is_own = start.kind == kind.value and start.study is None and not start.permit.get("is_short")
            if not is_own or (same is not None and start.config_digest != same):
                continue
            run = self.run(run_id)
            if run is None or run.is_sealed or RunState(run.row.state).is_ended:
                continue
            if not run.status.state.is_ended:
                return run
        return None
