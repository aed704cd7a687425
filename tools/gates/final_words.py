"""Final words on a project: goal, test figures with their interval, who measured them, and one line of use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trainwright.tools.evaluation.slices import metrics_of_targets
from trainwright.tools.gates.beside_rivals import rivals_text
from trainwright.tools.gates.caveats import BEFORE_PLANNING, caveats
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import verdict
from trainwright.tools.gates.folds import folds_text
from trainwright.tools.gates.next_call import SHARES
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.repeats import repeats_text
from trainwright.tools.gates.test_set_access import informative, project_accesses
from trainwright.tools.ledger.aliases import in_production
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.trainer.clean_room.names import WORST
from trainwright.trainer.prediction.assembly import use_of
from trainwright.trainer.run.evaluation import Evaluation, PermutationImportance
from trainwright.trainer.run.results import ROWS, Export

CONFIDENCE = 0.95
MAX_METRICS, MAX_TARGETS, MAX_INPUTS, MAX_GROUPS = 4, 8, 3, 8


def final_words(evidence: Evidence) -> list[str]:
    """Return the sentences that end a project; empty before its export."""
    if evidence.export is None or not evidence.export.is_complete:
        return []
    found = evidence.export.exported
    measured = [one for one in caveats(evidence) if one != BEFORE_PLANNING]
    words = [
        verdict(evidence, Phase.FINALIZATION),
        repeats_text(evidence),
        tested_words(evidence),
        _groups(evidence),
        _folds(evidence),
        *measured,
        rivals_text(evidence),
        _inputs(evidence),
        _served(found),
        _version(evidence),
    ]
    return [one for one in words if one]


def _version(evidence: Evidence) -> str:
    """Return which version of the model this is, with the call that puts it, or compares it with what is, in use."""
    versions = [body["version"] for _, body in evidence.entries(ModelRegistered.name)]
    if not versions:
        return ""
    held, name = in_production(evidence.entries(ModelPromoted.name)), evidence.name
    if held is None:
        return (
            f"It is v{versions[-1]}; promote_model(project={name!r}, version='v{versions[-1]}') puts it in production."
        )
    if held == versions[-1]:
        return f"It is v{held}, which is in production."
    compared = f"models(project={name!r}, compare=['v{held}', 'v{versions[-1]}'])"
    return f"It is v{versions[-1]}; in production is v{held}: {compared} has both on the same rows."


def _groups(evidence: Evidence) -> str:
    """Return the goal's metric in each slice and group of the test rows; empty where there are none."""
    found = evidence.export.evaluation if evidence.export is not None else None
    metric = evidence.goal_metric
    told = [
        f"{name} {one['metrics'][metric]:.4g} on {one['rows']}"
        for name, one in (found.slices("test") if found is not None else {}).items()
        if one["metrics"].get(metric) is not None
    ]
    more = f" and {len(told) - MAX_GROUPS} more" if len(told) > MAX_GROUPS else ""
    return f"Of the test rows, {metric} in each part: {', '.join(told[:MAX_GROUPS])}{more}." if told else ""


def _folds(evidence: Evidence) -> str:
    """Return the figures over the folds of the final configuration; empty where there are none."""
    assert evidence.final is not None, "an export is of it"  # noqa: S101
    return folds_text(evidence, evidence.final.directory.specification().config, with_next=False) or ""


def _inputs(evidence: Evidence) -> str:
    """Return the inputs that matter most, and of which that is shown; empty where no table was permuted."""
    found = importance_of(evidence)
    largest = [one for one in (found.columns if found else [])[:MAX_INPUTS] if one.worsening > 0]
    if found is None or not largest:
        return ""
    told = ", ".join(f"{one.column} {one.worsening:.3g}{'' if one.is_shown else ' (not shown)'}" for one in largest)
    return f"Inputs that matter most ({found.score}, how much worse without, {found.rows_text}): {told}."


def importance_of(evidence: Evidence) -> PermutationImportance | None:
    """Return the importance of a released table's columns: as the export measured it, else as the final run did."""
    assert evidence.export is not None, "it is of an export"  # noqa: S101
    assert evidence.final is not None, "an export is of it"  # noqa: S101
    return evidence.export.exported.importance or evidence.final.directory.part(Evaluation).importance


def tested_words(evidence: Evidence) -> str:
    """Return the figures of the test split, with their intervals and who measured them, by a completed export."""
    assert evidence.export is not None, "it holds the figures"  # noqa: S101
    found = evidence.export.exported
    tested, certified = evidence.export.tested_metrics(), evidence.export.certified("test")
    if not tested:
        return "The data has no test split."
    first = of_the_goals_kind_first(tested, evidence.goal_metric)
    evaluated = evidence.export.evaluation
    record = evaluated.splits.get("test", {}) if evaluated is not None else {}
    intervals, rows, groups = record.get("intervals", {}), found.test.size or 0, record.get("groups")
    figures = {name: _figure(name, tested[name], 0 if groups else rows, intervals.get(name)) for name in first}
    if each := _by_target(metrics_of_targets(evaluated, "test"), evidence.goal_metric):
        figures[evidence.goal_metric] += f", {each}"
    rows_told = f"{rows} rows in {groups} {record['grouped_by']}" if groups else f"{rows} rows"
    played = record.get("episodes", {})
    own = [name for name in record.get("own", []) if name not in played]
    sides = {
        "certified": [
            told for name, told in figures.items() if name in certified and name not in own and name not in played
        ],
        "by your function on independently computed outputs": [told for name, told in figures.items() if name in own],
        "by your function on independently run episodes": [
            f"{told} on {played[name]['count']} episodes" for name, told in figures.items() if name in played
        ],
        "as its process reported": [told for name, told in figures.items() if name not in certified],
    }
    told = "; ".join(f"{by}: {', '.join(each)}" for by, each in sides.items() if each)
    looks = len(informative(evidence, project_accesses(evidence)))
    again = f" The project read test figures of {looks} checkpoints, so they lean towards what was chosen." * (
        looks > 1
    )
    has_rows = (evidence.export.directory.artifacts / "final_model" / ROWS).is_file()
    from_one = "; predict.py counts from 1" if found.skew is not None else ""
    named = f" final_model/{ROWS} names the split of each row, from 0{from_one}." * has_rows
    return f"Test split, {rows_told}, {told}.{again}{named}"


def of_the_goals_kind_first(names: Iterable[str], goal: str) -> list[str]:
    """Return the metrics that are told: the goal's, the same of other targets (`b_r2`), losses last."""
    kind = goal.rpartition("_")[2]
    alike = {name for name in names if name.rpartition("_")[2] == kind}
    ordered = sorted(names, key=lambda name: (name != goal, name not in alike, "loss" in name))
    return ordered[: max(MAX_METRICS, len(alike | {goal}))]


def _by_target(targets: dict[str, dict[str, float]], metric: str) -> str:
    """Return a metric of each of several targets, of which the figure is the mean, or the worst; empty for one."""
    over, metric = ("worst" if metric.startswith(WORST) else "mean"), metric.removeprefix(WORST)
    each = [f"{name} {values[metric]:.4g}" for name, values in targets.items() if metric in values]
    more = ", …" * (len(each) > MAX_TARGETS)
    return f"{over} of {len(each)} ({', '.join(each[:MAX_TARGETS])}{more})" if each else ""


def _figure(name: str, value: float, rows: int, interval: Sequence[float] | None) -> str:
    """Return a figure with its 95 % interval: as it was certified, else of a share of rows by Wilson."""
    if interval is None and (name not in SHARES or not rows or not 0 <= value <= 1):
        return f"{name} {value:.4g}"
    if interval is None:
        from scipy import stats

        chance = stats.binomtest(round(value * rows), rows).proportion_ci(CONFIDENCE, method="wilson")
        interval = (chance.low, chance.high)
    return f"{name} {value:.4g} (95 % interval {interval[0]:.3g} to {interval[1]:.3g})"


def _served(found: Export) -> str:
    if found.skew is not None:
        return f"`{use_of(found.skew.kind)}` in final_model/ answers raw inputs; README.md has the rest."
    if found.onnx is None:
        return "model.safetensors has the weights; README.md says how they are loaded."
    outputs = [name for name in found.onnx.shapes if name not in found.onnx.inputs]
    names = f"{', '.join(found.onnx.inputs)} to {', '.join(outputs) or 'the output'}"
    call = "`onnxruntime.InferenceSession('model.onnx').run(None, inputs)`"
    return f"model.onnx takes {names}: {call}; README.md has the rest."
