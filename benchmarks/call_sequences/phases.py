"""What is legal, written down a second time and simply: the model that the server's answers are held to."""

from __future__ import annotations

from dataclasses import dataclass, field

PHASES = ("planning", "baseline", "diagnostics", "optimization", "finalization")
LOOKING = {"smoke", "probe"}
PERMITTED = {
    "planning": LOOKING,
    "baseline": LOOKING | {"baseline", "replay"},
    "diagnostics": LOOKING | {"baseline", "replay", "ablation"},
    "optimization": LOOKING | {"baseline", "replay", "trial", "ablation"},
    "finalization": {"smoke", "ablation", "final", "replay", "export"},
}
KEPT = {"smoke", "baseline", "final", "replay", "export"}
"""Kinds of which a complete run is given back, and not made again."""
REPORT = ("diagnostic_report.md", "plots/learning_curves.png", "plots/gradient_health.png")
MAX_RUNS_AT_ONCE = 2

Files = tuple[str, str]
"""Which code and which data lie in the user's folder."""


@dataclass
class Run:
    """A run as the caller knows it."""

    id: str
    kind: str
    configuration: str
    files: Files
    state: str = "running"
    source: str | None = None
    study: bool = False
    is_damaged: bool = False

    @property
    def is_sound(self) -> bool:
        """Whether it is evidence: completed, and its record not edited."""
        return self.state == "completed" and not self.is_damaged


@dataclass
class Decision:
    """An accepted decision and what it rests on."""

    configuration: str
    smoke: str
    runs: list[str]
    artifacts: set[str]


@dataclass
class Study:
    """A search that was started: by its configuration and the files that planning had approved."""

    configuration: str
    files: Files
    state: str
    is_validated: bool
    repetitions: list[str]
    trials: int


@dataclass
class Model:
    """One project."""

    configuration: str
    files: Files = ("a", "a")
    runs: dict[str, Run] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    studies: list[Study] = field(default_factory=list)
    damaged: set[str] = field(default_factory=set)
    """Artifacts in the project folder that were edited or removed."""
    diagnosed: set[str] = field(default_factory=set)
    """Runs that the server has written a report on."""
    reported: str | None = None
    """The run that the report in the folder is about."""
    meets_goal: dict[str, bool] = field(default_factory=dict)
    """Baseline run to whether its best value reaches the goal, as measured."""
    final_configuration: str | None = None
    """What the present release's last accepted optimization decision chose."""
    releases: int = 0
    """How many times the last gate has passed."""
    is_released: bool = False
    """Whether it is finished, and work on the next release has not begun."""

    @property
    def phase(self) -> str:
        """The first phase whose gate is not passed and fresh; `finished` from the last gate to the next release."""
        if self.is_released:
            return "finished"
        return next((phase for phase in PHASES if not self.is_fresh(phase)), "finished")

    def is_fresh(self, phase: str) -> bool:
        """Whether the phase's gate has passed, and nothing that the decision rests on has changed."""
        decision = self.decisions.get(phase)
        if decision is None or decision.configuration != self.configuration:
            return False
        if self.runs[decision.smoke].files != self.files:
            return False
        return all(self.runs[run].is_sound for run in decision.runs) and not decision.artifacts & self.damaged

    def newest(self, kind: str, configuration: str | None, source: str | None = None) -> Run | None:
        """The newest run of a kind for a configuration; completed ones come first."""
        found = [
            run
            for run in self.runs.values()
            if run.kind == kind and not run.study and run.configuration == configuration
            and (source is None or run.source == source)
        ]  # fmt: skip
        completed = [run for run in found if run.state == "completed"]
        return (completed or found or [None])[-1]

    @property
    def smoke(self) -> Run | None:
        """The smoke run of the configuration that holds."""
        return self.newest("smoke", self.configuration)

    @property
    def baseline(self) -> Run | None:
        """The baseline of the configuration that holds."""
        return self.newest("baseline", self.configuration)

    @property
    def final(self) -> Run | None:
        """The final run of what optimization settled; without any, the completed baseline whose configuration it is."""
        if self.final_configuration is None:
            return None
        found, baseline = self.newest("final", self.final_configuration), self.baseline
        is_final = baseline is not None and baseline.configuration == self.final_configuration
        return found or (baseline if is_final and baseline is not None and baseline.state == "completed" else None)

    def foundations(self) -> list[Run | None]:
        """Return final run, its replay and its export."""
        final = self.final
        return [final, *(self.newest(kind, final.configuration, final.id) if final else None
                         for kind in ("replay", "export"))]  # fmt: skip

    def validated_study(self) -> Study | None:
        """The newest completed study of the configuration that holds, if its repetitions still show the improvement."""
        found = [s for s in self.studies if s.configuration == self.configuration and s.state == "completed"]
        smoke = self.smoke
        study = next((study for study in reversed(found) if study.is_validated), None)
        if study is None or smoke is None:
            return None
        runs = [self.runs[run] for run in study.repetitions]
        return study if all(run.is_sound and run.files == smoke.files for run in runs) else None

    def may_pass(self, phase: str) -> bool:
        """Whether the gate must open now; otherwise it must refuse."""
        if phase != self.phase:
            return False
        smoke, baseline = self.smoke, self.baseline
        if phase == "planning":
            return smoke is not None and smoke.is_sound and smoke.files == self.files
        if phase == "baseline":
            return _fits(baseline, smoke)
        if phase == "diagnostics":
            return baseline is not None and self._is_reported(baseline)
        if phase == "optimization":
            met = baseline is not None and self.meets_goal[baseline.id]
            return met or self.validated_study() is not None
        final, replay, export = self.foundations()
        return _fits(final, smoke) and all(run is not None and run.is_sound for run in (replay, export))

    def _is_reported(self, baseline: Run) -> bool:
        return baseline.id in self.diagnosed and self.reported == baseline.id and not self.damaged & set(REPORT)

    def may_start(self, kind: str) -> str | None:
        """Return the error that starting a run of the kind must meet; None when it must start."""
        phase = "finalization" if self.phase == "finished" else self.phase
        closed = self.phase == "finished" and kind in {"final", "export"}
        if kind not in PERMITTED[phase] or closed:
            return "GateRefusedError"
        if kind in {"replay", "export"} and self.source(kind) is None:
            return "ConflictError"
        if self.existing(kind) is not None:
            return None
        if len(self.living) >= MAX_RUNS_AT_ONCE:
            return "LimitReachedError"
        return None

    def existing(self, kind: str) -> Run | None:
        """Return the complete run that a start of this kind, where it is permitted, gives instead of another one."""
        source = self.source(kind) if kind in {"replay", "export"} else None
        configuration = source.configuration if source else self.configuration
        run = self.final if kind == "final" else self.newest(kind, configuration, source and source.id)
        if kind not in KEPT or run is None or not run.is_sound or run.files != self.files:
            return None
        smoke = self.smoke if kind in {"baseline", "final"} else None
        return run if smoke is None or smoke.state != "completed" or smoke.files == run.files else None

    def source(self, kind: str) -> Run | None:
        """Return the run that a replay or an export would take, if it is completed."""
        final = self.final
        if final is None:
            kinds = {"final"} if kind == "export" else {"final", "baseline"}
            found = [run for run in self.runs.values() if run.kind in kinds and not run.study]
            final = found[-1] if found else None
        return final if final is not None and final.state == "completed" else None

    @property
    def living(self) -> list[Run]:
        """The runs that a worker holds."""
        return [run for run in self.runs.values() if run.state == "running"]

    def may_resume(self, run: Run) -> str | None:
        """Return the error that resuming the run must meet; None when it must go on."""
        if run.state not in {"stopped", "interrupted"}:
            return "ConflictError"
        if run.is_damaged:
            return "IntegrityError"
        phase = "finalization" if self.phase == "finished" else self.phase
        if run.kind not in PERMITTED[phase] or (self.phase == "finished" and run.kind in {"final", "export"}):
            return "GateRefusedError"
        return "LimitReachedError" if len(self.living) >= MAX_RUNS_AT_ONCE else None

    def configured(self, digest: str, *, begins: bool) -> None:
        """Take note of the configuration; where a release is begun, decisions of the one before count no more."""
        self.configuration = digest
        if begins:
            self.is_released, self.final_configuration = False, None
            self.decisions.clear()

    def decide(self, phase: str, artifacts: list[str]) -> None:
        """Take note that a gate has passed."""
        assert self.smoke is not None
        runs = {
            "planning": [self.smoke],
            "baseline": [self.baseline],
            "diagnostics": [self.baseline],
            "optimization": [self.baseline],
            "finalization": self.foundations(),
        }[phase]
        ids = [run.id for run in runs if run is not None]
        study = self.validated_study() if phase == "optimization" else None
        if study is not None:
            ids += study.repetitions
        self.decisions[phase] = Decision(self.configuration, self.smoke.id, ids, set(artifacts))
        if phase == "finalization":
            self.releases, self.is_released = self.releases + 1, True
        if phase != "diagnostics":  # the report was written before, and must be unchanged
            self.damaged -= set(artifacts)


def _fits(run: Run | None, smoke: Run | None) -> bool:
    return run is not None and smoke is not None and run.is_sound and run.files == smoke.files
