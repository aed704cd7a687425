"""Signatures, checked with the public key alone: from which entry to which the ledger is attested."""

from __future__ import annotations

import itertools

from trainwright.tools.ledger.chain import digest_of
from trainwright.tools.verification.findings import Case, Finding
from trainwright.tools.workspace.signing import PublicKey, key_id_of
from trainwright.tools.workspace.tables import LedgerEntry

UNSIGNED = (
    "not attested: nothing is signed. Whoever can write these files can rewrite ledger, database and copies together, "
    "and no comparison among them shows it; a signing key (`trainwright keys new`) or a copy kept elsewhere does."
)


def attestation(case: Case) -> tuple[str, list[Finding]]:
    """Return the attestation as a sentence, and the findings against it."""
    public = case.public
    if public is None:
        signed = [entry.sequence for entry in case.entries if entry.signature]
        keys = sorted({key_id_of(entry.signature) for entry in case.entries if entry.signature})
        if not signed:
            return UNSIGNED, []
        attestation = f"not attested: {_spans(signed)} signed by {', '.join(keys)}; --public-key FILE checks it."
        return attestation, []
    states: dict[str, list[int]] = {}
    for entry in case.entries:
        states.setdefault(_state(entry, public), []).append(entry.sequence)
    good = states.pop("good", [])
    if not good:
        attestation = f"not attested: no entry is signed by key {public.id}."
        return attestation, [Finding(where="signature", what=attestation)]
    early = [number for number in states.get("not signed", []) if number < good[0]]
    late = [number for number in states.pop("not signed", []) if number > good[0]]
    findings = [Finding(where="signature", what=f"{_spans(numbers)} {state}") for state, numbers in states.items()]
    if late:
        findings.append(Finding(where="signature", what=f"{_spans(late)} not signed"))
    if early:
        what = f"{_spans(early)} not signed: written before the first signature, which covers them as they stood then"
        findings.append(Finding(where="signature", what=what, counts=False))
    return f"attested by key {public.id}: {_spans(good)}.", findings


def is_signed(entry: LedgerEntry, public: PublicKey | None) -> bool:
    """Return whether the entry is as it was signed with this key."""
    return public is not None and _state(entry, public) == "good"


def _state(entry: LedgerEntry, public: PublicKey) -> str:
    if not entry.signature:
        return "not signed"
    if public.fits(entry.signature, digest_of(entry)):
        return "good"
    if (other := key_id_of(entry.signature)) != public.id:
        return f"signed by another key ({other[:16]})"
    return "with a signature that does not fit"


def _spans(numbers: list[int]) -> str:
    """Return `ledger entries 1 to 4, 7` of an ascending list."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        parts.append(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]))
    return f"ledger entr{'ies' if len(numbers) > 1 else 'y'} {', '.join(parts)}"
