"""Calls against an alert: its fixes are tried in short paired runs, or one is applied by a change."""

from __future__ import annotations

from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates import cures
from trainwright.tools.gates.call_history import ignored, in_vain
from trainwright.tools.gates.decision import Option
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.training_monitor import load_diagnostics
from trainwright.trainer.run.evaluation import Evaluation

MAX_FIXES = 4
"""Fixes that one trial compares."""
ONLY_LENGTH = ("training.epochs", "training.max_steps", "early_stopping.", "checkpoints.")
"""Keys that say how long to train or what to keep: runs of the same few steps cannot tell them apart."""
OTHER_ROWS = ("data.use", "data.split", "seed")
"""Keys whose change is not the same work: other rows, or in another order."""
NOT_OF_TRAINING = cures.OF_MEMORY | {"data_leak", "learning_rate_off_curve", "no_effect"}
"""Alerts whose fixes the run has computed itself, or which are not about the curves."""


def can_be_shown(alert_id: str, changes: dict[str, Any]) -> bool:
    """Return whether a short paired run can show what these changes do to the alert."""
    if not changes or alert_id in NOT_OF_TRAINING or all(key.startswith(ONLY_LENGTH) for key in changes):
        return False
    return not any(key.startswith(OTHER_ROWS) for key in changes)


def waiting_call(evidence: Records, run: RunRecords) -> NextCall | None:
    """Return the call that waits for the run under way of a trial of fixes; None where no trial is under way."""
    cure = cures.cure_of(evidence, run.id)
    if cure is None or cure.state != cures.RUNNING:
        return None
    ids = list(cures.runs_of_cure(evidence.facts, cure.cure_id).values())
    living = [one for run_id in ids if (one := evidence.run(run_id)) is not None and one.sealed is None]
    why = f"fixes of {cure.alert} are being tried"
    if not living:
        return NextCall(tool="diagnose_run", arguments={"project": evidence.name, "run_id": run.id}, why=why)
    return NextCall(tool="run_status", arguments={"run_id": living[-1].id, "wait_seconds": 50}, why=why)


def look_instead(run: RunRecords, alert: dict[str, Any]) -> NextCall | None:
    """Return what to look at where the alert's document says that no key cures it, in its words; else None."""
    document = next((one for one in load_diagnostics() if one.id == alert["id"]), None)
    if document is None or document.beyond_keys is None:
        return None
    advice = " ".join(fix["text"] for fix in alert["fixes"])
    why = f"{alert['id']}: no key of the configuration cures it, nor what follows from it. {advice}"
    if document.beyond_keys == "document" or not run.part(Evaluation).worst:
        return NextCall(tool="read_document", arguments={"path": alert["document"]}, why=why)
    return NextCall(tool="plot_metrics", arguments={"run_ids": [run.id], "kind": document.beyond_keys}, why=why)


def fixes_to_try(evidence: Records, run: RunRecords, alert: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alert's fixes that were not tried in vain on this configuration, and that a short run can show."""
    done = cures.tried_on(evidence, alert["id"], run.row.config_digest)
    if any(one.cleared and one.in_pairs for one in done):
        return []  # the first that cured is known
    known = {one.fix for one in done if one.in_pairs}
    left = [fix for fix in cures.untried(alert, done) if fix["id"] not in known]
    shown = [fix for fix in left if can_be_shown(alert["id"], fix["changes"])]
    return [fix for fix in shown if len(ignored(evidence, list(fix["changes"]))) < len(fix["changes"])][:MAX_FIXES]


def options_against(
    evidence: Records, run: RunRecords, alerts: list[dict[str, Any]], *, proven: bool = False
) -> list[Option]:
    """Return the calls against a run's alerts (`calls_against`), each with why it would be in vain."""
    calls = calls_against(evidence, run, alerts, proven=proven)
    return [Option(call=call, vain=in_vain(evidence, call)) for call in calls]


def calls_against(
    evidence: Records, run: RunRecords, alerts: list[dict[str, Any]], *, proven: bool = False
) -> list[NextCall]:
    """Return the calls against a run's alerts, of each: its fixes are tried, else the first that may help is applied.

    Changes that were tried on a cause without curing it are not proposed for what follows from it either.

    Args:
        evidence: of the project.
        run: whose alerts they are.
        alerts: the causes before their consequences.
        proven: only changes that cured in short runs.
    """
    found: list[NextCall] = []
    failed: dict[str, list[dict[str, Any]]] = {}
    for alert in alerts:
        done = cures.tried_on(evidence, alert["id"], run.row.config_digest)
        in_vain_for_cause = failed.setdefault(alert.get("consequence_of") or alert["id"], [])
        left = alert | {"fixes": [fix for fix in alert["fixes"] if fix["changes"] not in in_vain_for_cause]}
        in_vain_for_cause += [one.changes for one in done if not one.cleared and not one.gained]
        found += _calls_against(evidence, run, left, done, proven=proven)
    return found


def _calls_against(
    evidence: Records, run: RunRecords, alert: dict[str, Any], done: list[cures.Tried], *, proven: bool
) -> list[NextCall]:
    found: list[NextCall] = []
    cured = {one.fix: one for one in done if one.cleared and one.in_pairs}
    fixes = [] if proven else fixes_to_try(evidence, run, alert)
    if fixes:
        why = f"{alert['id']}: short runs with and without each say which of its fixes cures: "
        why += ", ".join(fix["id"] for fix in fixes)
        found.append(evidence.call("diagnose_run", why, run_id=run.id, fix="try"))
    left = [fix for fix in cures.untried(alert, done) if fix["id"] in cured or not proven]
    return found + [_applying(evidence, alert, fix, cured.get(fix["id"])) for fix in left]


def _applying(evidence: Records, alert: dict[str, Any], fix: dict[str, Any], proof: cures.Tried | None) -> NextCall:
    text = f"{alert['id']}: {fix['text']}"
    stated = {"reason": text} if alert["id"] in cures.OF_MEMORY else {}
    return evidence.call(
        "configure", f"{text}{f' Proven: {proof}.' if proof else ''}", changes=fix["changes"], **stated
    )
