"""Projects and gates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio.to_thread
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.types import CallToolResult
from pydantic import BaseModel, Field

from trainwright.server.access import present_access
from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import PLAIN_SECONDS, waited
from trainwright.server.context import workspace_of
from trainwright.server.documents import read_text
from trainwright.server.files import links
from trainwright.server.markdown import counted
from trainwright.server.progress import Progress, RunSight, StudySight, sight
from trainwright.server.surface.arguments import AskOwner, Changes, Detail, Goal, Phase, Project, Template, WaitSeconds
from trainwright.tools.answers import NextCall

if TYPE_CHECKING:
    from trainwright.tools.projects import Advance

# Request to the owner as a question that the agent's client shows to a person, if the owner accepts that.

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
    can_ask = capabilities is not None and capabilities.elicitation is not None and present_access().may_grant
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
    if not present_access().may_grant:  # nobody was asked
        return
    workspace, by = workspace_of(context), Grantor.here(WAY, asked=False)
    for request in ask_for(workspace, project, ask_owner.model_dump(exclude_none=True), reason):
        decide(workspace, request.id, granted=answer.data.answer == "grant", by=by)


MAX_PROJECTS = 20
BEGIN = "begin.md"
"""The page that an empty workspace is answered with: all that most jobs need."""
INTENT = "the user's sentence, with the goal"


@agent_tool("tools.projects:ProjectStatus", title="Create a project")
def create_project(
    context: Context[Any, Any],
    *,
    name: Annotated[str, Field(description="1 to 63 of a-z, 0-9, - and _")],
    intent: Annotated[str, Field(max_length=2000, description="What the model is for")],
    goal: Goal,
    template: Template = "baseline",
    config: Annotated[
        dict[str, Any] | None,
        Field(description='Sections laid over the template, e.g. {"model": {"use": "mlp"}, "data": {"use": "digits"}}'),
    ] = None,
    limits: Annotated[
        dict[str, Any] | None,
        Field(description="Own limits, e.g. run_wall_clock_seconds"),
    ] = None,
) -> CallToolResult:
    """Begin here: one project for one problem. Results fix the goal. Refuses a configuration that breaks the
    schema; limits above the owner's, and code outside the owner's folders, wait for the owner's grant."""
    from trainwright.tools import projects, training_architect

    workspace = workspace_of(context)
    training_architect.require_fitting_metric(workspace, config or {}, goal.model_dump())
    status = projects.create_project(
        workspace,
        name,
        intent=intent,
        goal=goal.model_dump(),
        template=template,
        config=config,
        limits=limits,
    )
    return reply(status, f"Project {name} is in {status.phase}.", omit={"project", "phase"})


@agent_tool(
    "tools.projects:ConfigurationAnswer",
    "tools.projects:DeletionAnswer",
    title="Change the configuration",
    idempotent=True,
)
def configure(
    context: Context[Any, Any],
    project: Project,
    changes: Changes | None = None,
    *,
    reason: Annotated[str, Field(max_length=1000, description="Why; kept, and shown to the owner")] = "",
    template: Annotated[Template | None, Field(description="Start over from this template")] = None,
    ask_owner: Annotated[
        AskOwner | None, Field(description="Request a grant of the workspace's owner; repeat to see the answer")
    ] = None,
    begin_release: Annotated[bool, Field(description="Work on a finished project: begins its next release")] = False,
    hand_over: Annotated[
        dict[str, Any] | None, Field(description="Writes handover.yaml: by, to, questions, notes")
    ] = None,
    response: Annotated[ElicitationResult[OwnersAnswer], Resolve(question)],
) -> CallToolResult:
    """Change the project's configuration and keep it as a new version. Says which gates become stale by it. Refuses
    what breaks the schema, and then changes nothing. With ask_owner it asks the owner for a higher limit, an exemption
    or the project's deletion, and says how the owner grants it."""
    from trainwright.tools import projects

    asked = ask_owner.model_dump(exclude_none=True) if ask_owner else None
    workspace = workspace_of(context)
    if ask_owner is not None:
        take_answer(context, project, ask_owner, reason, response)
        if ask_owner.delete_project:
            gone = projects.delete_project(workspace, project, reason=reason)
            return reply(gone, f"Project {project} is deleted, with {gone.runs} runs.", omit={"project", "runs"})
    answer = projects.configure(
        workspace,
        project,
        changes=changes,
        reason=reason,
        template=template,
        ask_owner=asked,
        begin_release=begin_release,
        hand_over=hand_over,
    )
    kept = f"is kept as version {answer.version}" if answer.changed else f"stays at version {answer.version}"
    changed = "; ".join(f"{key} {json.dumps(old)} -> {json.dumps(new)}" for key, (old, new) in answer.changed.items())
    headline = f"The configuration of {project} {kept}{f': {changed}' if changed else ''}."
    return reply(answer, headline, omit={"project", "version", "changed"})


@agent_tool(
    "tools.projects:ProjectStatus", "server.surface.answers:ProjectsAnswer", title="Show projects", read_only=True
)
def project_status(
    context: Context[Any, Any], project: Project | None = None, detail: Detail = "concise"
) -> CallToolResult:
    """Status of a project: phase, checks of its gate, runs, what to do next. Without a name: the newest
    projects. Call it first in a new session."""
    from trainwright.server.surface.answers import ProjectsAnswer
    from trainwright.tools import projects

    workspace = workspace_of(context)
    own = present_access().projects
    status = projects.project_status(workspace, project, most=MAX_PROJECTS, only=own or None)
    if isinstance(status, list):
        listed = [item.model_dump(mode="json", exclude_none=True) for item in status]
        total = len(listed) if own else projects.count_projects(workspace)
        left_out = max(0, total - len(listed))
        answer = ProjectsAnswer(projects=listed, total=total, left_out=left_out)
        if not listed:
            plan = NextCall(
                tool="plan_training", arguments={"intent": INTENT}, why="it reads the data and proposes all"
            )
            page = read_text(BEGIN)
            answer = answer.model_copy(update={"begin": page, "next": plan})
            return reply(answer, f"0 projects.\n\n{page}", omit={"total", "begin"})
        return reply(answer, f"{counted(total, 'project')}{', the newest' if answer.left_out else ''}.", omit={"total"})
    return reply(
        status,
        f"Project {project}: {'finished' if status.finished else status.phase}.",
        omit={"project"},
        full=detail == "full",
    )


@agent_tool("tools.projects:GateAnswer", title="Pass a gate", idempotent=True)
def pass_gate(
    context: Context[Any, Any],
    project: Project,
    phase: Annotated[Phase | None, Field(description="Default: the present one")] = None,
    *,
    conclude: Annotated[
        bool,
        Field(description="End optimization below the goal: after a search without improvement, or if none helps"),
    ] = False,
    detail: Detail = "concise",
) -> CallToolResult:
    """Ask for the gate that ends a phase. The server computes every check from evidence it measured; claims do not
    count. Refuses with the failed checks, measured and required values, and the call that fixes each."""
    from trainwright.tools import projects

    workspace = workspace_of(context)
    answer = projects.pass_gate(workspace, project, phase, conclude=conclude)
    headline = f"{answer.goal}. " if answer.goal else ""
    headline += f"The gate of {answer.phase} is {answer.outcome}."
    if answer.now_in == "finished":
        headline += f" The project is finished: {answer.folder}/final_model."
        headline += (
            f" In a shell, `trainwright deploy {project} --into DIR` generates a service, a form, a database and"
        )
        headline += " clients where its rows and answers fit a template, or says what is missing."
    reports = links(workspace, project, [name for name in answer.artifacts if name.endswith(".md")])
    return reply(answer, headline, *reports, omit={"project", "phase", "outcome", "goal"}, full=detail == "full")


@agent_tool("tools.projects:Advance", title="Continue until a decision")
async def advance(
    context: Context[Any, Any], project: Project, wait_seconds: WaitSeconds = PLAIN_SECONDS
) -> CallToolResult:
    """Follow the project's `next` calls for you: smoke, baseline, diagnosis, gates, final run, replay, export. Ends
    at a decision (a search not configured, a change), a failure, refusal or new alert, or when
    the wait is over; runs go on."""
    from trainwright.tools import projects

    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    began, lines = time.monotonic(), ["beginning"]
    sights: dict[str, RunSight | StudySight] = {}

    def look(should_stop: Callable[[], bool]) -> Advance:
        return projects.advance(
            workspace, project, wait_seconds, should_stop=should_stop, said=lines.append, watching=watch
        )

    def watch(name: str) -> None:
        if name not in sights:
            sights.clear()
            sights[name] = sight(workspace, name)

    def progress() -> Progress:
        told = [f"{name}: {look().message}" for name, look in list(sights.items())]
        return Progress(time.monotonic() - began, wait_seconds, "; ".join([lines[-1], *told]))

    answer = await waited(context, look, progress)
    headline = f"Project {project} is in {answer.phase}; ended by {answer.ended}."
    card = links(workspace, project, ["final_model/README.md"] if answer.final_model else [])
    return reply(answer, headline, *card, omit={"project", "phase", "ended"})
