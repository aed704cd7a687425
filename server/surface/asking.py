"""Request to the owner as a question that the agent's client shows to a person, if the owner accepts that."""

from __future__ import annotations

from typing import Any, Literal

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult
from pydantic import BaseModel

from trainwright.server.context import workspace_of
from trainwright.server.surface.arguments import AskOwner

WAY: Literal["elicitation"] = "elicitation"


class OwnersAnswer(BaseModel):
    """Answer of a person."""

    answer: Literal["grant", "deny", "leave open"] = "leave open"


def question(
    context: Context[Any, Any], project: str, ask_owner: AskOwner | None, reason: str
) -> Elicit[OwnersAnswer] | OwnersAnswer:
    """Return the question about this call's requests; nobody is asked if the owner does not accept such answers.

    Raises TrainwrightError for invalid requests.
    """
    workspace = workspace_of(context)
    capabilities = context.client_capabilities
    can_ask = capabilities is not None and capabilities.elicitation is not None
    if ask_owner is None or WAY not in workspace.settings.approvals or not can_ask:
        return OwnersAnswer()
    from trainwright.tools.owner import meaning
    from trainwright.tools.projects import ask_for

    requests = ask_for(workspace, project, ask_owner.model_dump(exclude_none=True), reason)
    pending = [request for request in requests if request.state == "pending"]
    if not pending:
        return OwnersAnswer()
    lines = [f"{request.id}: {request.grant}. {meaning(request.grant)}" for request in pending]
    asked = f"The agent requests for project {project}: " + " | ".join(lines)
    return Elicit(f"{asked} Its reason: {pending[0].reason or 'none'}.", OwnersAnswer)


def take_answer(
    context: Context[Any, Any], project: str, ask_owner: AskOwner, reason: str, answer: ElicitationResult[OwnersAnswer]
) -> None:
    """Record what a person answered; a declined or cancelled question leaves the requests open."""
    from trainwright.tools.owner import Grantor, decide
    from trainwright.tools.projects import ask_for

    if not isinstance(answer, AcceptedElicitation) or answer.data.answer == "leave open":
        return
    workspace, by = workspace_of(context), Grantor.here(WAY, asked=False)
    for request in ask_for(workspace, project, ask_owner.model_dump(exclude_none=True), reason):
        decide(workspace, request.id, granted=answer.data.answer == "grant", by=by)
