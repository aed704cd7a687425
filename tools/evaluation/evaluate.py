"""Evaluation of the program that one run exported: the order, the clean room's answer, and what it is compared with."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.tools.evaluation.baseline import Named, named_baseline, record_beside
from trainwright.tools.evaluation.comparison import ONLY_THERE, differences_between, meant_by
from trainwright.tools.evaluation.episodes import Drawn, add_episodes, drawn_before
from trainwright.tools.evaluation.meanings import take_worse
from trainwright.tools.evaluation.own_metrics import add_own_metrics, own_entries
from trainwright.tools.evaluation.process import code_digest, libraries_of, place_of, run_clean_room
from trainwright.tools.evaluation.rivals import add_problems, rivals_of
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.evaluation.slices import slice_orders
from trainwright.tools.evaluation.variants import variants_of
from trainwright.tools.ledger import ProjectFacts
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.section import Entry, episode_entries
from trainwright.trainer.clean_room.neighbours import NAME as NEIGHBOURS
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.losses import LOSSES
from trainwright.trainer.metrics import BUILT_IN
from trainwright.trainer.objectives.sections import AdversarialSection, ContrastiveSection, MultiTaskSection
from trainwright.trainer.run import RunKind, RunSpecification, RunState
from trainwright.trainer.run.artifacts import FixedRows, Program
from trainwright.trainer.run.evidence import Data, Environment, Resolved, Summary
from trainwright.trainer.run.results import Export

COMPARED = {RunKind.BASELINE, RunKind.FINAL, RunKind.EXPORT}
"""Kinds of runs that are evaluated beside the baseline that the evaluation gate names."""
AGAIN = "Start the run again: its record was changed while it was read; `trainwright verify` names what differs."


class Others(NamedTuple):
    """The runs that a run is evaluated with."""

    rows: Sealed | None
    """Planning's smoke run, whose rows count; None: not sealed."""
    source: Sealed | None = None
    """The run that an export is of, whose program was written where no test rows were."""
    baseline: Named | None = None
    """The one that the project's evaluation gate names."""
    drawn: Drawn | None = None
    """What was drawn for the episodes of the same weights before, which are played again."""
    fitted: Sealed | None = None
    """The newest baseline before it on the same planned rows: its rivals count for a run that fitted none."""


def compared_with(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Others:
    """Return the runs that a run is evaluated with."""
    start = facts.started.get(run_id)
    source = start.source_run if start is not None and start.kind == RunKind.EXPORT else None
    found = [
        Sealed(workspace.run_directory(project, name), facts.seals[name].digests) if name in facts.seals else None
        for name in (facts.rows_run(run_id), source or "")
    ]
    try:
        program = workspace.run_directory(project, run_id).part(Program).digest
    except TrainwrightError:  # a torn record: the evaluation says so
        program = None
    drawn = drawn_before(facts, run_id, source, program)
    fitted = _with_rivals(workspace, facts, project, run_id)
    baseline = _baseline_of(workspace, project, run_id)
    if start is not None and start.kind == RunKind.ABLATION and fitted is not None:  # an attempt is at its baseline
        baseline = named_baseline(workspace, fitted.directory.run_id, project)
    return Others(found[0], found[1], baseline, drawn, fitted)


def _with_rivals(workspace: Workspace, facts: ProjectFacts, project: str, run_id: str) -> Sealed | None:
    """Return the newest completed baseline before a run that planning gave the same rows; None: there is none."""
    rows, found = facts.rows_run(run_id), None
    for name, start in facts.started.items():
        if name == run_id:
            break
        seal = facts.seals.get(name) if start.kind == RunKind.BASELINE else None
        if seal is not None and seal.state == RunState.COMPLETED and facts.rows_run(name) == rows:
            found = Sealed(workspace.run_directory(project, name), seal.digests)
    return found


def _baseline_of(workspace: Workspace, project: str, run_id: str) -> Named | None:
    try:
        specification = workspace.run_directory(project, run_id).specification()
    except TrainwrightError:  # whoever reads the run says so
        return None
    gate = specification.config.evaluation_gate
    if gate is None or gate.baseline is None or specification.kind not in COMPARED:
        return None
    return named_baseline(workspace, gate.baseline, project)


def evaluate_program(run: Sealed, others: Others) -> RunEvaluated | None:
    """Evaluate the program of a completed run on the rows that planning's smoke run fixed. Never raises.

    Args:
        run: the run, whose part Program names the program.
        others: planning's smoke run and what else counts for it.

    Returns:
        What the ledger is to record; with a `problem` where it could not be evaluated. None: there is no part Program.
    """
    started = time.monotonic()
    rows = others.rows
    found: dict[str, Any] = {"run_id": run.directory.run_id, "rows_run": rows.directory.run_id if rows else ""}
    try:
        program = run.part(Program)
        if not program:
            return None
        found |= {"program": program.digest or "", "rows": _record_digest(rows)}
        found |= _evaluated(run, others, program)
    except Exception as error:  # noqa: BLE001 - a run is sealed all the same, and its gate says why
        what = f"its record cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        found |= {"problem": what, "remedy": AGAIN}
    return RunEvaluated(**found, seconds=round(time.monotonic() - started, 3))


def order_of(specification: RunSpecification, run: Sealed, rows: Sealed, program: Program) -> dict[str, Any]:
    """Return the clean room's order: everything but the program comes from the run plan and the fixed rows."""
    config, record, runtime = specification.config, rows.part(FixedRows), specification.runtime
    python = runtime.python if runtime is not None and runtime.container is None else None
    reported = reported_by(run)
    given = {metric if isinstance(metric, str) else metric.use for metric in config.metrics}
    names = {*given, config.selection.metric, *(name for values in reported.values() for name in values)}
    has_features = isinstance(config.objective, ContrastiveSection)
    loss, task = (None, None) if has_features else _loss_of(config, run.part(Resolved))
    return {
        "program": ordered(run, program),
        "rows": {"folder": str(rows.directory.artifacts), "record": record.as_dict()},
        "splits": _splits(specification.kind, record),
        "metrics": [NEIGHBOURS] if has_features else sorted(names & BUILT_IN.keys()),
        "loss": loss,
        "task": task,
        "attack": _attack_of(config, rows.part(Data)) if task == "classification" else None,
        "tasks": _tasks_of(config),
        "targets": rows.part(Data).target_names or [],
        **slice_orders(config, rows.part(Data)),
        "threads": 1,
        **place_of(str(program.form), python, run.part(Environment).path),
    }


def reported_by(run: Sealed) -> dict[str, dict[str, float]]:
    """Return what the run's own process reported, by split: of its best epoch, or of the exported model."""
    export = run.part(Export)
    if export:
        splits = {"validation": export.validation.metrics, "test": export.test.metrics}
        return {name: dict(values) for name, values in splits.items() if values}
    return {"validation": dict(run.part(Summary).best_metrics)}


def _splits(kind: RunKind, record: FixedRows) -> list[str]:
    """Return the splits to evaluate: the test split of an export alone, which is a recorded test-set access."""
    return ["validation", *(["test"] if kind is RunKind.EXPORT and "test" in record.splits else [])]


def _evaluated(run: Sealed, others: Others, program: Program) -> dict[str, Any]:
    rows, baseline = others.rows, others.baseline
    if not program.path:
        cause = program.problem or "the run exported no program"
        return {"problem": f"no program could be made of it: {cause}", "remedy": program.remedy or ""}
    specification = run.directory.specification()
    why = _not_to_evaluate(specification.config, rows)
    if why is not None or rows is None:
        return dict(zip(("problem", "remedy"), why or (), strict=False))
    order = order_of(specification, run, rows, program)
    own, episodes = own_entries(specification.config), episode_entries(specification.config.metrics)
    if not (order["metrics"] or order["loss"] or order["tasks"] or own or episodes):
        remedy = "Add a built-in metric to `metrics`: it is evaluated apart."
        return {"problem": "loss and metrics are all computed by the user's code", "remedy": remedy}
    with tempfile.TemporaryDirectory(prefix="outputs-") as folder:
        rivals = rivals_of(run, others.fitted, order, Path(folder))
        order = order | {"rivals": [one for one in rivals if "problem" not in one]}
        asked = _with_baseline(order, baseline)
        answer = run_clean_room(asked | ({"keep_outputs": folder} if own else {}))
        if answer.get("problem"):
            return {"problem": str(answer["problem"]), "remedy": str(answer.get("remedy", ""))}
        if own:
            add_own_metrics(run, own, answer, Path(folder))
        if episodes:
            add_episodes(run, asked, answer, Path(folder), others.drawn or {})
        add_problems(rivals, answer)
    if variants := variants_of(run, order):
        answer["splits"]["validation"]["variants"] = variants
    precision = specification.config.training.precision
    beside = {name: one.pop("beside") for name, one in answer["splits"].items() if "beside" in one}
    found = _compared(run, answer, program, precision)
    if baseline is not None:
        found["beside"] = record_beside(baseline, run.directory, beside, rows)
    if "test" in answer["splits"]:
        found["differences"] += _beside_source(order, answer["splits"], others.source, precision)
    take_worse(order, answer["splits"])
    return found


def _with_baseline(order: dict[str, Any], baseline: Named | None) -> dict[str, Any]:
    """Return the order with the baseline's program beside, where it has one."""
    if baseline is None or baseline.run is None or not baseline.program.path:
        return order
    program = baseline.program
    libraries = list(dict.fromkeys([*order["libraries"], *libraries_of(str(program.form))]))
    return order | {"beside": ordered(baseline.run, program), "libraries": libraries}


def ordered(run: Sealed, program: Program) -> dict[str, Any]:
    """Return the part of an order that names a run's program."""
    named = program.model_dump(include={"form", "digest", "data", "inputs", "outputs"})
    return {"path": str(run.directory.artifacts / str(program.path)), **named}


def _beside_source(order: dict[str, Any], splits: dict[str, Any], source: Sealed | None, precision: str) -> list[str]:
    """Return where an export's test figures are others than those of the program that the trained run left.

    User code in an export is given the test rows, and could make the model answer by them. Where there is no program
    from before, the test figures are nobody's but the export's: they are taken out.
    """
    program = source.part(Program) if source is not None else Program()
    why = "" if program.path else f"the trained run left no program: {program.problem or 'no record of one'}"
    if source is not None and program.path:
        form = libraries_of(str(program.form))
        only = {"libraries": form, "splits": ["test"], "rivals": []}
        answer = run_clean_room(order | {"program": ordered(source, program), **only})
        if not answer.get("problem"):
            before = {"test": answer["splits"]["test"]["metrics"]}
            now = {"test": splits["test"] | {"intervals": {}, "readings": {}}}  # both are of the same rows
            return differences_between(before, now, precision, by="by the program that the trained run left")
        why = f"the program that the trained run left: {answer['problem']}"
    test = splits["test"]
    test["not_computed"] |= dict.fromkeys(test["metrics"], why)
    test |= {"metrics": {}, "intervals": {}, "targets": [], "rivals": {}}
    return []


def _compared(run: Sealed, answer: dict[str, Any], program: Program, precision: str) -> dict[str, Any]:
    """Return the clean room's figures beside the reported ones, and where they differ."""
    splits = answer["splits"]
    if getattr(run.directory.specification().config.objective, "weighting", "fixed") != "fixed":
        for split in splits.values():  # the weights of the tasks' losses were learned
            split["metrics"].pop("loss", None)
    reported = {
        name: {metric: value for metric, value in values.items() if _was_asked(splits[name], metric)}
        for name, values in reported_by(run).items()
        if name in splits
    }
    for name, values in reported_by(run).items():
        record = splits.get(name, {})
        own = values.keys() - record.get("metrics", {}) - record.get("not_computed", {}).keys()
        record.setdefault("not_computed", {}).update(dict.fromkeys(sorted(own), ONLY_THERE))
    differences = differences_between(reported, splits, precision)
    for name, split in splits.items():  # those that explain a reported figure are kept
        meant = {one: meant_by(one, value, split, precision) for one, value in reported.get(name, {}).items()}
        split["readings"] = {one: {words: split["readings"][one][words]} for one, words in meant.items() if words}
    versions = " ".join(f"{name} {version}" for name, version in sorted(answer.get("versions", {}).items()))
    found = {
        "evaluator": f"{code_digest()} {versions}".strip(),
        "splits": splits,
        "reported": {name: dict(filter(_is_finite, values.items())) for name, values in reported.items()},
        "differences": differences,
    }
    if differences and (cause := _known_cause(run, program)):
        found["problem"], found["remedy"] = f"{cause[0]} {differences[0]}", cause[1]
    return found


def _known_cause(run: Sealed, program: Program) -> tuple[str, str] | None:
    """Return why figures may differ though nobody is at fault, and the remedy; None where nothing explains it."""
    has_task = run.directory.specification().config.task is not None  # without one there is no step of the user's
    if has_task and (users := run.part(Resolved).judged_by):
        remedy = "Let model(inputs) return what is reported, or leave the figure as it is: nobody evaluates it."
        return f"the user's {users} reports by other outputs than model(inputs):", remedy
    return (program.problem, program.remedy or "") if program.problem else None


def _was_asked(split: dict[str, Any], metric: str) -> bool:
    return metric in split["metrics"] or metric in split.get("not_finite", {})


def _is_finite(figure: tuple[str, float]) -> bool:
    return math.isfinite(figure[1])


def _tasks_of(config: TrainingConfig) -> dict[str, Any] | None:
    """Return the tasks of a model with several targets, as the configuration has them."""
    objective = config.objective
    if not isinstance(objective, MultiTaskSection):
        return None
    return {name: task.model_dump(mode="json") for name, task in objective.tasks.items()}


def _attack_of(config: TrainingConfig, data: Data) -> dict[str, Any] | None:
    """Return the attack that validation is measured by; None where inputs are prepared otherwise than standardised."""
    section, scaling = config.objective, dict(data.preprocessing)
    if not isinstance(section, AdversarialSection) or scaling.pop("kind", None) not in {None, "standardize"}:
        return None
    kept = section.model_dump(include={"epsilon", "clip_range", "input"})
    return kept | scaling | {"steps": section.evaluation_steps, "step_size": section.evaluation_step_size}


def _record_digest(rows: Sealed | None) -> str:
    return rows.digests.get(f"artifacts/{FixedRows.file}.json", "") if rows else ""


def _not_to_evaluate(config: TrainingConfig, rows: Sealed | None) -> tuple[str, str] | None:
    """Return why the program cannot be evaluated, with the remedy."""
    objective = config.objective
    gives_features = isinstance(objective, ContrastiveSection) and objective.linear_probe and objective.features is None
    if type(objective).replaces and _tasks_of(config) is None and not gives_features:
        what = f"the objective {objective.name} has other outputs than predictions of one target"
        return what, "Its measures are those of the training process alone."
    if rows is None:
        return "planning depends on no smoke run", "Pass the planning gate on a smoke run of this version."
    record = rows.part(FixedRows)
    if not record:
        fixed = "planning's smoke run fixed no rows, or they were changed since"
        return fixed, "Start a smoke run of this version, and pass the planning gate on it."
    return (f"planning could fix no rows: {record.problem}", record.remedy or "") if record.problem else None


def _loss_of(config: TrainingConfig, resolved: Resolved) -> tuple[dict[str, Any] | None, str | None]:
    """Return the built-in loss that validation reports, as {name, args}, and the kind of its targets.

    None where the user's code computes it.
    """
    entry = Entry(use=config.loss) if isinstance(config.loss, str) else config.loss
    form = LOSSES.get(entry.use)
    is_plain = resolved.judged_by is None and resolved.returns in {None, "output"} and not resolved.user_loss
    if form is None or not is_plain or resolved.loss != form.name:
        return None, None
    if config.task is not None and entry.args:  # the task may have named the loss without them
        return None, form.task
    arguments = form.model_validate(entry.args)
    return {"name": form.name, "args": arguments.model_dump(mode="json")}, form.task
