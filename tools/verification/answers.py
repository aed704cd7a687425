"""The owner's answers beside the requests that they answer: an answer to nothing, or to something else, was forged."""

from __future__ import annotations

from trainwright.tools.owner.grant import Grant
from trainwright.tools.owner.grants import DECISION, grant_of
from trainwright.tools.owner.requests import REQUEST, request_id
from trainwright.tools.verification.findings import Case, Found, found
from trainwright.tools.workspace.tables import LedgerEntry

Asked = tuple[str | None, Grant | None]


def verify_answers(case: Case) -> Found:
    """Compare every answer of the owner with the request before it: the same project, the same grant, answered once."""
    asked: dict[str, Asked] = {}
    answered: set[str] = set()
    problems = []
    for entry, body in case.everything:  # deleted projects' too: a forged grant would delete the traces of itself
        if entry.kind == REQUEST:
            asked[request_id(entry)] = (entry.project, grant_of(body))
        elif entry.kind == DECISION:
            name = str(body.get("request"))
            problems += _difference(entry, name, asked.get(name), grant_of(body), is_second=name in answered)
            answered.add(name)
    return len(asked), found("ledger", problems)


def _difference(
    entry: LedgerEntry, name: str, asked: Asked | None, grant: Grant | None, *, is_second: bool
) -> list[str]:
    what = f"ledger entry {entry.sequence}: an answer of the owner"
    if asked is None or grant is None or asked[1] is None:
        return [f"{what} answers no request ({name[:40]})"]
    if asked != (entry.project, grant):
        text = (
            f"{name} requests {asked[1]} in project {asked[0]}, and it answers for {grant} in project {entry.project}"
        )
        return [f"{what} answers no request: {text}"]
    return [f"{what} is the second to {name}"] if is_second else []
