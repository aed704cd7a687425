"""Random sequences of calls on two servers, each answer held to the model, everything compared after each call."""

from __future__ import annotations

import collections
import threading
from contextlib import suppress
from typing import Any, ClassVar

from edits import RUN_FILES, edit, edited_file, move_edits
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from invariants import chosen_configuration, differences
from phases import PHASES, REPORT, Run, Study
from world import (
    GOAL,
    GOOD_RATE,
    LIMITS,
    NAME,
    POOR_RATE,
    SEARCH,
    Edit,
    Stages,
    World,
    write_user_files,
)

from trainwright.tools import projects
from trainwright.tools.hyperparameter_tuner import start_study
from trainwright.tools.training_orchestrator import refresh_run, replay_run, resume_run, start_run, stop_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind

SERVERS = st.integers(0, 1)
STARTED = ("smoke", "baseline", "trial", "ablation", "replay", "final", "export")
ENDS = ("completed", "completed", "completed", "crashed", "killed", "stopped")
BUILT_IN = {"model": {"use": "mlp"}, "data": {"use": "iris"}}
WRONG: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("create", "ConflictError", {"name": NAME}),
    ("create", "ConfigurationError", {"name": "../evil"}),
    ("create", "ApprovalNeededError", {"name": "greedy", "limits": {"trials": 10**6}}),
    ("configure", "ConfigurationError", {"optimizer.learning_rat": 1}),
    ("configure", "ConfigurationError", {"optimizer.learning_rate": "fast"}),
    ("configure", "ConfigurationError", {"code_root": "/no/such/folder"}),
    ("configure", "ConfigurationError", {"selection.direction": "sideways"}),
)
KINDS = st.sampled_from(STARTED)


class Calls(RuleBasedStateMachine):
    """One sequence."""

    stages: ClassVar[Stages]
    counts: ClassVar[collections.Counter[str]] = collections.Counter()
    verified_every: int = 3
    """After so many calls `verify` is asked, and at the end of each sequence: it takes as long as all the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self.agreed = False

    @initialize(stage=st.data())
    def begin(self, stage: st.DataObject) -> None:
        """Begin at some stage of the project."""
        self.world = self.stages.at(stage.draw(st.sampled_from(self.stages.names)))

    @property
    def here(self) -> World:
        """The world."""
        assert self.world is not None
        return self.world

    def server(self, number: int) -> Workspace:
        """Return a server as a call finds it: with the owner's settings read anew."""
        return self.here.servers[number].refreshed()

    def expect(self, what: str, error: str | None, call: Any) -> Any:
        """Make a call that must succeed, or meet this error."""
        try:
            answer = call()
        except TrainwrightError as met:
            assert error is not None, f"{what} was refused: {type(met).__name__}: {met.message}"
            assert type(met).__name__ == error, f"{what} met {type(met).__name__}, not {error}: {met.message}"
            assert met.remedy, f"{what}: a refusal without a remedy"
            self.counts[f"{what}: refused"] += 1
            return None
        assert error is None, f"{what} went through and should have met {error}"
        self.counts[f"{what}: done"] += 1
        return answer

    # --- the agent's calls

    @rule(number=SERVERS, wrong=st.sampled_from(WRONG))
    def ask_for_what_cannot_be(self, number: int, wrong: tuple[str, str, dict[str, Any]]) -> None:
        """Make a project that exists, or whose name is a path, or beyond the owner's limits; configure wrongly."""
        what, error, arguments = wrong
        if what == "configure":
            self.expect("configure wrongly", error, lambda: projects.configure(
                self.server(number), NAME, changes=arguments))  # fmt: skip
        else:
            self.expect("create wrongly", error, lambda: projects.create_project(
                self.server(number), **{"intent": "", "goal": GOAL, "config": BUILT_IN} | arguments))  # fmt: skip

    @rule(number=SERVERS, rate=st.sampled_from([GOOD_RATE, POOR_RATE]), begins=st.booleans())
    def configure(self, number: int, rate: float, begins: bool) -> None:
        """Change the configuration, to one that may have been there before, or not at all; or begin a release."""
        model, server = self.here.model, self.server(number)
        begins, has_changed = begins and model.is_released, self.learning_rate(server) != rate
        error = "ConflictError" if model.is_released and has_changed and not begins else None
        answer = self.expect("configure", error, lambda: projects.configure(
            server, NAME, changes={"optimizer.learning_rate": rate}, begin_release=begins))  # fmt: skip
        if answer is not None:
            assert (bool(answer.changed), answer.release_begun is not None) == (has_changed, begins), answer.changed
            self.counts["releases begun"] += begins
            model.configured(answer.digest, begins=begins)

    def learning_rate(self, server: Workspace) -> float:
        """The rate of the configuration that holds."""
        with server.session() as session:
            return float(latest_config(session, NAME).values["optimizer"]["learning_rate"])

    @rule(number=SERVERS, kind=KINDS)
    def start(self, number: int, kind: str) -> None:
        """Start a run of any kind."""
        model = self.here.model
        source = model.source(kind) if kind in {"replay", "export"} else None
        existing = model.existing(kind)
        view = self.expect(f"start {kind}", model.may_start(kind), lambda: (
            replay_run(self.server(number), NAME) if kind == "replay"
            else start_run(self.server(number), NAME, RunKind(kind))))  # fmt: skip
        if view is not None and existing is not None:
            assert (view.run_id, bool(view.note)) == (existing.id, True)
            self.counts["start: exists already"] += 1
        elif view is not None:
            assert view.note is None
            configuration = source.configuration if source else model.configuration
            if kind == "final":
                configuration = str(model.final_configuration)
            model.runs[view.run_id] = Run(view.run_id, kind, configuration, model.files, source=source and source.id)

    @precondition(lambda self: self.here.model.living)
    @rule(number=SERVERS, data=st.data(), how=st.sampled_from(ENDS))
    def end(self, number: int, data: st.DataObject, how: str) -> None:
        """Let a run come to an end, and a server see it."""
        run = data.draw(st.sampled_from(self.here.model.living))
        was_signalled = self.here.understudy.was_signalled(run.id)
        self.finish(number, run, "stopped" if was_signalled else "completed" if how == "stopped" else how)

    def finish(self, number: int, run: Run, how: str) -> None:
        """End a run as told, and file it."""
        run.state = self.here.understudy.end(run.id, how).value
        view = refresh_run(self.server(number), run.id)
        assert view.state.value == run.state
        if run.kind == "baseline" and run.state == "completed":
            self.here.model.meets_goal[run.id] = float((view.best or {})["value"]) >= GOAL["target"]
        self.counts[f"run ended: {run.state}"] += 1

    @precondition(lambda self: self.here.model.runs)
    @rule(number=SERVERS, data=st.data())
    def stop(self, number: int, data: st.DataObject) -> None:
        """Ask a run to stop."""
        run = data.draw(st.sampled_from(list(self.here.model.runs.values())))
        running = run.state == "running" and not self.here.understudy.was_signalled(run.id)
        self.expect("stop", None if running else "ConflictError", lambda: stop_run(self.server(number), run.id))
        if running:
            self.here.understudy.held[run.id].process.wait()

    @precondition(lambda self: self.here.model.runs)
    @rule(number=SERVERS, data=st.data())
    def resume(self, number: int, data: st.DataObject) -> None:
        """Resume a run, one that cannot be more often than not."""
        model = self.here.model
        self.go_on(number, data.draw(st.sampled_from([run for run in model.runs.values() if not run.study] or [None])))

    def go_on(self, number: int, run: Run | None) -> None:
        """Resume this run."""
        if run is None:
            return
        view = self.expect("resume", self.here.model.may_resume(run), lambda: resume_run(self.server(number), run.id))
        if view is not None:
            run.state = "running"

    @rule(number=SERVERS, phase=st.sampled_from(PHASES))
    def pass_gate(self, number: int, phase: str) -> None:
        """Ask for any gate."""
        error = None if self.here.model.may_pass(phase) else "GateRefusedError"
        answer = self.expect(f"pass {phase}", error, lambda: projects.pass_gate(self.server(number), NAME, phase))
        if answer is not None:
            self.decided(phase, answer.artifacts)
            assert answer.now_in == self.here.model.phase

    def decided(self, phase: str, artifacts: list[str]) -> None:
        """Take note of a gate that has passed."""
        if phase == "finalization" and self.here.model.releases:
            move_edits(self.here, self.here.model.releases)
        self.here.model.decide(phase, artifacts)
        if phase != "diagnostics":
            self.forget_edits(artifacts)
        if phase == "optimization":
            self.here.model.final_configuration = chosen_configuration(self.here)

    def forget_edits(self, artifacts: list[str]) -> None:
        """The server has written these files anew; a folder that it replaced holds no files of others."""
        model, world = self.here.model, self.here
        whole = any(name.startswith("final_model/") for name in artifacts)
        for path in list(world.edits):
            name = str(path.relative_to(world.project))
            if name in artifacts or (whole and name.startswith("final_model/")):
                del world.edits[path]
                model.damaged.discard(name)

    @rule(first=st.sampled_from(PHASES), data=st.data())
    def pass_gates_at_once(self, first: str, data: st.DataObject) -> None:
        """Let two servers ask for gates in the same moment: of the same phase, at most one passes."""
        phase = data.draw(st.sampled_from([first, self.here.model.phase.replace("finished", first)]))
        accepted: list[Any] = []

        def ask(server: Workspace) -> None:
            with suppress(TrainwrightError):
                accepted.append(projects.pass_gate(server, NAME, phase))

        threads = [threading.Thread(target=ask, args=(server,)) for server in self.here.servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(accepted) == int(self.here.model.may_pass(phase)), f"{phase} passed {len(accepted)} times"
        self.counts[f"two at once: {len(accepted)} passed"] += 1
        if accepted:
            self.decided(phase, accepted[0].artifacts)

    @rule(number=SERVERS)
    def diagnose(self, number: int) -> None:
        """Let the server read the baseline's curves."""
        model = self.here.model
        baseline = model.baseline
        ended = baseline is not None and baseline.state != "running"
        if baseline is None or not ended or baseline.is_damaged:
            return  # what an unfinished run's curves say is no matter of gates
        answer = self.expect("diagnose", None, lambda: projects.diagnose(self.server(number), NAME, baseline.id))
        if answer.report is not None:
            model.diagnosed.add(baseline.id)
            model.reported = baseline.id
            model.damaged -= set(REPORT)
            self.forget_edits(list(REPORT))

    @rule(number=SERVERS)
    def study(self, number: int) -> None:
        """Start a search, or meet the one that there is."""
        model = self.here.model
        planning = model.decisions.get("planning")
        files = model.runs[planning.smoke].files if planning else model.files
        known = next((s for s in reversed(model.studies)
                      if s.configuration == model.configuration and s.state == "completed"
                      and s.files == files), None)  # fmt: skip
        used = sum(study.trials for study in model.studies)
        error = None
        if known is None:
            error = None if model.phase == "optimization" else "GateRefusedError"
            if error is None and used + SEARCH["trials"] > LIMITS["trials"]:
                error = "LimitReachedError"
            if error is None and len(model.living) >= LIMITS["runs_at_once"]:
                return  # its trials wait for room, and here nobody would end a run meanwhile
        view = self.expect("study", error, lambda: start_study(self.server(number), NAME, search=SEARCH))
        if view is not None and known is None:
            self.add_study(view, files)

    def add_study(self, view: Any, files: tuple[str, str]) -> None:
        """Take note of a study and its runs."""
        model = self.here.model
        with self.server(0).session() as session:
            rows = [row for row in runs_of(session, NAME) if row.id not in model.runs]
        for row in rows:
            model.runs[row.id] = Run(row.id, row.kind, row.config_digest, files, row.state, study=True)
        found = view.confirmation or {}
        runs = [*found.get("baseline_runs", []), *found.get("best_runs", [])]
        model.studies.append(
            Study(model.configuration, files, view.state, bool(found.get("validated")), runs, view.trials_done)
        )
        self.counts[f"study: {view.state}, validated {found.get('validated')}"] += 1

    @rule(number=SERVERS)
    def go_where_next_points(self, number: int) -> None:
        """Follow the server's own `next`: it is never a call that is refused for the phase."""
        call = projects.project_status(self.server(number), NAME).next  # type: ignore[union-attr]
        model = self.here.model
        if call is None:
            assert model.phase == "finished"
            return
        self.counts[f"next: {call.tool}"] += 1
        arguments = call.arguments
        if call.tool == "pass_gate":
            assert model.may_pass(arguments["phase"]), call
            self.pass_gate(number, arguments["phase"])
        elif call.tool in {"start_training", "verify_reproducibility", "export_model"}:
            kind = {"verify_reproducibility": "replay", "export_model": "export"}.get(call.tool) or arguments["kind"]
            assert model.may_start(kind) in {None, "LimitReachedError"}, call
            self.start(number, kind)
        elif call.tool == "run_status":
            self.finish(number, model.runs[arguments["run_id"]], "completed")
        elif call.tool == "resume_training":
            self.go_on(number, model.runs[arguments["run_id"]])
        elif call.tool == "diagnose_run":
            self.diagnose(number)
        elif call.tool == "start_tuning":
            self.study(number)

    @rule(number=SERVERS)
    def restart(self, number: int) -> None:
        """Let one of the servers end and another come."""
        self.here.restart(number)

    # --- what happens beside the calls

    @rule(code=st.sampled_from("aab"), data=st.sampled_from("aab"))
    def edit_user_files(self, code: str, data: str) -> None:
        """Edit the user's code or data, or bring them back."""
        write_user_files(self.here.folder / "code", code, data)
        self.here.model.files = (code, data)

    @rule(data=st.data())
    def edit_artifact(self, data: st.DataObject) -> None:
        """Edit or remove an artifact that a decision or a report names, or add a file to the final model."""
        world, model = self.here, self.here.model
        names = {name for decision in model.decisions.values() for name in decision.artifacts}
        names |= set(REPORT) if model.reported else set()
        names |= {"final_model/added.bin"} if (world.project / "final_model").is_dir() else set()
        paths = [world.project / name for name in sorted(names)]
        paths = [path for path in paths if path not in world.edits and (path.is_file() or path.name == "added.bin")]
        if not paths:
            return
        path = data.draw(st.sampled_from(paths))
        name = str(path.relative_to(world.project))
        world.edits[path] = Edit(path, path.read_bytes() if path.exists() else None, (name,))
        if path.exists() and data.draw(st.booleans()):
            path.unlink()
        else:
            path.write_bytes((world.edits[path].before or b"") + b"accuracy 1.0\n")
        if path.name != "added.bin":
            model.damaged.add(name)
        self.counts["edits of artifacts"] += 1

    @rule(data=st.data(), what=st.sampled_from(RUN_FILES))
    def edit_run(self, data: st.DataObject, what: str) -> None:
        """Edit a file of a run that has ended."""
        world = self.here
        ended = [run for run in world.model.runs.values() if run.state not in {"running", "interrupted"}]
        if not ended:
            return
        run = data.draw(st.sampled_from(ended))
        path = edited_file(world.run(run.id).path, what)
        if path is None or path in world.edits:
            return
        before = path.read_bytes()
        world.edits[path] = Edit(path, before, (run.id, "checkpoint" if what == "checkpoint" else what), run=run.id)
        edit(path, what)
        run.is_damaged = True
        self.counts["edits of runs"] += 1

    @precondition(lambda self: self.here.edits)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        """Bring an edited file back."""
        world = self.here
        edited = world.edits.pop(data.draw(st.sampled_from(list(world.edits))))  # by age: names of runs are random
        if edited.before is None:
            edited.path.unlink()
        else:
            edited.path.write_bytes(edited.before)
        world.model.damaged.discard(str(edited.path.relative_to(world.project)))
        if edited.run is not None:
            world.model.runs[edited.run].is_damaged = any(other.run == edited.run for other in world.edits.values())

    # --- after each step

    @invariant()
    def everything_agrees(self) -> None:
        """Compare the servers, the model, the database, the ledger and the files."""
        if self.world is None:
            return
        self.counts["steps"] += 1
        self.agreed = False
        found = differences(self.world, verify=self.counts["steps"] % self.verified_every == 0)
        assert not found, found
        self.agreed = True

    def teardown(self) -> None:
        """Verify once more, unless the sequence has failed, and end what still runs."""
        if self.world is None:
            return
        self.counts["sequences"] += 1
        try:
            found = differences(self.world, verify=True) if self.agreed else []
            assert not found, found
        finally:
            self.world.close()
