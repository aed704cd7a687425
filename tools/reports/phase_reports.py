"""Reports of the phases: planning's manifest, the baseline's and the search's results, and the list of packages."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.beside_rivals import baseline_text
from trainwright.tools.gates.decide import GateReport, final_values
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import verdict
from trainwright.tools.gates.ideas import experiments_of
from trainwright.tools.gates.leak_prices import told_leaks
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.reports.certified import evaluated, table
from trainwright.tools.reports.looked_at import configurations_beside, looked_at_values
from trainwright.tools.reports.markdown import metric_label, reference_line, shared_values, written_at
from trainwright.tools.reports.slices import slices_values
from trainwright.tools.versions import version_of
from trainwright.trainer.base.text import one_line
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import config_digest, dump_yaml, parse_config
from trainwright.trainer.run.evidence import Environment


def training_config(evidence: Evidence) -> str:
    """Return the locked configuration, every default written out."""
    head = f"# Project {evidence.name}, configuration version {evidence.version.number}, {evidence.config_digest}\n"
    return head + dump_yaml(evidence.config.model_dump(mode="json", exclude_none=True))


def reproducibility_manifest(evidence: Evidence, report: GateReport) -> str:
    """Return the measurements of the smoke run's worker: seeds, determinism, environment, data, code."""
    assert evidence.smoke is not None  # noqa: S101 - the gate's checks have shown it
    values = {**shared_values(evidence, report), "config_digest": evidence.config_digest}
    return manifest_of(evidence.smoke, **values, **looked_at_values(evidence, evidence.smoke))


def manifest_of(run: RunEvidence, **values: Any) -> str:
    """Return the manifest of any run; `values` are those of its gate, if there is one."""
    return render(
        "reports/reproducibility_manifest.md.j2",
        **{"written": written_at(), **values},
        run=run,
        randomness=run.reproducibility,
        environment=run.environment,
        requirements=requirement_lines(run.environment),
        data=run.data,
        code=run.code,
    )


def baseline_results(evidence: Evidence, report: GateReport) -> str:
    """Return the baseline's numbers as its worker recorded them."""
    run = evidence.baseline
    assert run is not None  # noqa: S101 - the gate's checks have shown it
    value, summary = run.best_value(evidence.goal_metric), run.summary
    reported = {"validation": dict(summary.best_metrics)}
    label = partial(metric_label, resolved=run.resolved)
    columns, rows = table(run, reported, label)
    return render(
        "reports/baseline_results.md.j2",
        **shared_values(evidence, report),
        run=run,
        value=value,
        verdict="reached" if evidence.reaches_goal(value) else "not reached",
        reference=reference_line(evidence, value),
        rivals=baseline_text(evidence),
        evaluated=evaluated(run, evidence.goal_metric, reported),
        columns=columns,
        rows=rows,
        label=label,
        best=summary.best,
        summary=summary,
        metrics=sorted(summary.final),
        ignored=run.resolved.ignored_keys or [],
        checkpoints=list_checkpoints(run.directory),
        leaks=told_leaks(evidence),
        data=run.data,
        data_version=version_of(evidence.data_versions, run.data.fingerprint),
        **slices_values(run),
    )


def final_config(evidence: Evidence) -> str:
    """Return the configuration that the final run will train with, every default written out."""
    config = parse_config(final_values(evidence))
    head = f"# Project {evidence.name}: the configuration to finalize, {config_digest(config)}\n"
    return head + dump_yaml(config.model_dump(mode="json", exclude_none=True))


def tuning_results(evidence: Evidence, report: GateReport) -> str:
    """Return the project's result, why the phase ends, and the study's report."""
    study = ""
    if report.outcome != "skipped" and evidence.study is not None:
        from trainwright.tools.hyperparameter_tuner import tuning_report

        study = tuning_report(evidence.session, evidence.workspace, evidence.study)
    return render(
        "reports/tuning_results.md.j2",
        **shared_values(evidence, report),
        verdict=verdict(evidence, Phase.OPTIMIZATION),
        outcome=report.outcome,
        baseline=evidence.baseline,
        configurations=configurations_beside(evidence) if report.outcome == "passed" else [],
        study=study,
        ideas=len(experiments_of(evidence)),
    )


OWN = "trainwright"


def requirement_lines(environment: Environment, imported: Collection[str] = ()) -> list[str]:
    """Return `name==version` lines of a run's `environment` evidence, sorted.

    Args:
        environment: the evidence.
        imported: the packages to name; all that were installed where none are given.

    Left out are distributions that no index has: Trainwright itself, and what was installed from a folder or a
    repository. A local version label (`2.13.0+cpu`) names a build, which other indexes do not carry: PEP 440 lets
    `==2.13.0` take any build of that version.
    """
    unreleased = {OWN, *environment.unreleased}
    named = (set(imported) or environment.packages.keys()) - unreleased
    released = {name: version for name, version in environment.packages.items() if name in named}
    return [one_line(f"{name}=={version.partition('+')[0]}") for name, version in sorted(released.items())]


def requirements_file(environment: Environment, imported: Collection[str], needs: str = "") -> str:
    """Return the file for the packages that a run imported; comments name those that it does not install.

    Args:
        needs: the packages that predict.py works with, fewer as a rule; empty where there is none.
    """
    left_out = [one_line(name) for name in sorted({OWN, *environment.unreleased})]
    head = [
        f"# The packages with which the model was trained, on Python {environment.python or '3'}.",
        "# To train it again: pip install -r requirements.txt",
        *([f"# To use it, fewer are enough (predict.py): pip install {needs}"] if needs else []),
        f"# Not on an index, and left out: {', '.join(left_out)}.",
    ]
    return "\n".join([*head, *requirement_lines(environment, imported)]) + "\n"
