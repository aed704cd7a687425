"""Every completed ablation study, derived again from its sealed runs and compared with the ledger."""

from __future__ import annotations

from functools import partial
from typing import Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import best_value, epoch_values, same_figures
from trainwright.tools.hyperparameter_tuner.ablation.conduct import parameters_of
from trainwright.tools.hyperparameter_tuner.ablation.publishing import study_seeds
from trainwright.tools.hyperparameter_tuner.ablation.results import results_of
from trainwright.tools.hyperparameter_tuner.ablation.section import recorded_search
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED
from trainwright.tools.ledger.events import AblationChanged, TrialEnded
from trainwright.tools.verification.findings import Case, Found, derived_again
from trainwright.tools.workspace.tables import LedgerEntry, Study
from trainwright.trainer.config import apply_changes, config_digest, parse_config


def verify_ablations(case: Case) -> Found:
    """Compare every run's line with its run, and derive seeds, effects and conclusion from the lines again."""
    ended = [(entry, body) for entry, body in case.of(AblationChanged.name) if body.get("results")]
    return derived_again(ended, "ablation study", partial(_differences, case))


def _differences(case: Case, entry: LedgerEntry, body: dict[str, Any]) -> list[str]:
    project = str(entry.project)
    study = case.project(project).rows.find(Study, body["study_id"])
    if study is None:
        return ["nothing began it"]
    evidence = Evidence(case.session, case.workspace, project, inspection=case.inspection)
    search, lines = recorded_search(study.search), [TrialEnded.model_validate(line) for line in body["trials"]]
    arms = len(search.design.arms)
    if [line.number for line in lines] != list(range(len(lines))) or len(lines) not in {
        repeats * arms for repeats in search.looks
    }:
        return [f"it lists {len(lines)} runs, and its design has {search.runs}"]
    wrong = [f"run {line.number}: {what}" for line in lines if (what := _against_run(evidence, study, line))]
    if wrong:
        return wrong
    seeds = study_seeds(study, search)
    derived = results_of(evidence, search, study.objective, seeds, lines)
    recorded = body["results"]
    return [
        f"its {name} is recorded otherwise than its runs give it"
        for name in sorted(derived.keys() | recorded.keys())
        if not same_figures(derived.get(name), recorded.get(name))
    ]


def _against_run(evidence: Evidence, study: Study, line: TrialEnded) -> str:
    """Return a line's difference from its run; empty if none. A failed run claims no value."""
    if line.parameters != parameters_of(study, recorded_search(study.search), line.number):
        return "its configuration or seed is not the design's"
    if line.state != COMPLETED:
        return "" if line.value is None else "it has a value, and did not complete"
    run = evidence.run(line.run or "")
    if run is None or not run.is_complete:
        return f"run {line.run} is not complete"
    if run.differences:
        return run.differences[0]
    plan = run.directory.specification()
    expected = config_digest(parse_config(apply_changes(study.base_values, line.parameters)))
    search = recorded_search(study.search)
    code = search.design.arms[line.number % len(search.design.arms)].code
    if config_digest(plan.config) != expected or plan.max_steps is not None or plan.snapshot != code:
        return f"run {run.id} did not train its configuration"
    best = best_value(epoch_values(run.directory, study.objective["metric"]), study.objective["direction"])
    return "" if line.value == best else f"run {run.id} recorded other values"
