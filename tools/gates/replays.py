"""Replays of a final run: the one that counts, and those before it that differed (REPRO-5).

The newest completed replay counts. Repeating until one is identical has the others reported beside it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.records import Records, RunRecords

DOCUMENT = "reproducibility/verification.md"


class Replayed(NamedTuple):
    """One completed replay beside its source."""

    is_identical: bool
    """The last weights, every recorded metric and the best checkpoint, and the record is as it was sealed."""
    measured: str
    relative_difference: float | None
    """Norm of the difference of the last weights over the source's norm; None when it could not be formed."""


def compared(source: RunRecords, replay: RunRecords) -> Replayed:
    """Return the result of a completed replay's comparison."""
    found = replay.comparison
    same_weights = found.identical is True and found.source_weights_digest == source.summary.weights_digest
    same = same_weights and found.metrics_identical is True and not replay.differences
    shipped = _best_weights(source)
    same_best = shipped is not None and shipped == _best_weights(replay)
    causes = "; ".join(map(str, [*replay.differences, *(found.causes or [])][:2]))
    share = found.relative_difference
    far = "different" if share is None else f"different by {share:.1e} of their norm"
    text = f"{found.tensors or 0} tensors, " + ("identical" if same else f"{far}: {causes}")
    text = f"{text}; best checkpoint {'identical' if same_best else 'DIFFERENT'}"
    return Replayed(same and same_best, text, share)


def others_that_differed(evidence: Records) -> list[str]:
    """Return the final run's other completed replays that did not come out identical, in order of their start."""
    final, counting = evidence.final, evidence.replay
    if final is None or counting is None:
        return []
    others = [
        run_id
        for run_id, start in evidence.facts.started.items()
        if (start.kind, start.source_run) == (RunKind.REPLAY, final.id)
        and run_id != counting.id
        and not start.permit.get("is_short")
        and (seal := evidence.facts.seals.get(run_id)) is not None
        and seal.state == RunState.COMPLETED
    ]
    found = ((run_id, evidence.run(run_id)) for run_id in others)
    return [run_id for run_id, run in found if run is None or not compared(final, run).is_identical]


def after_a_difference(evidence: Records, source: RunRecords, replay: RunRecords) -> NextCall:
    """Return a call that changes something: the same replay again would only be another draw."""
    if replay.differences:  # nothing was measured: its record was changed
        return evidence.call("verify_reproducibility", "the record of that replay was changed", run_id=source.id)
    if not evidence.config.reproducibility.deterministic:
        why = f"non-deterministic operations were allowed ({DOCUMENT}); every gate anew"
        return evidence.call("configure", why, changes={"reproducibility.deterministic": True})
    facts = ", ".join(sorted(replay.comparison.fingerprint_differences))
    if facts:
        return evidence.call("start_training", f"the final run anew, as things are now: {facts}", kind="final")
    if source.status.attempt > 1:  # measured: the source was resumed, and the replay was not
        why = (
            f"the source was resumed, and lost state of your code: keep it in `context.state` ({DOCUMENT}), then every"
        )
        return evidence.call("start_training", f"{why} gate anew", kind="smoke")
    why = f"{DOCUMENT} reads the difference: seed the code first, then every gate anew"
    return evidence.call("start_training", why, kind="smoke")


def _best_weights(run: RunRecords) -> str | None:
    """Return the digest of the best checkpoint's weights, which the export ships."""
    best = [record for record in list_checkpoints(run.directory) if "best" in record.tags]
    if not best:
        return None
    manifest = json.loads((best[0].path / "manifest.json").read_text(encoding="utf-8"))
    base = manifest.get("frozen_base", {}).get("digest", "")  # of weights that the checkpoint names only
    return f"{manifest['files']['model.safetensors']['digest']} {base}".strip()
