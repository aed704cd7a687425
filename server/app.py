"""The server object: tools, resources and prompts over one workspace that is opened at the first call."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import Message, PromptArgument
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated, ServerEvent
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmptyResult,
    InputRequiredResult,
    ListResourcesResult,
    PaginatedRequestParams,
    PromptReference,
    ResourceTemplateReference,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp.types import Resource as ListedResource
from pydantic import Field

import trainwright
from trainwright.server.access import present_access
from trainwright.server.agent_tool import StrictTool, run_apps
from trainwright.server.context import AppContext
from trainwright.server.documents import paths_beginning
from trainwright.server.http.door import Door
from trainwright.server.resources import DOCUMENT_TEMPLATE, RUN_TEMPLATE, add_resources
from trainwright.server.run_tasks import RunTasks
from trainwright.server.stdio import StdioServer
from trainwright.server.surface import TOOLS
from trainwright.server.tasks import Backend, Tasks
from trainwright.tools.documents import read_document
from trainwright.trainer.base.records import Closed

INSTRUCTIONS = """\
Trainwright trains PyTorch models through five gated phases: planning, baseline, diagnostics, optimization, \
finalization. Begin with project_status, which in an empty workspace says how; then follow the `next` call that every \
answer carries; advance makes those calls for you until there is something to decide. Gates open on evidence that the \
server measured, never on claims; a refusal names each failed check, the measured value and what to do. Training runs \
in the background: start calls and run_status wait for it with wait_seconds. Runs are named as digits/baseline-2; \
detail="full" shows all of an answer. Documents need not be read first: answers name the one that helps."""


def build_server(
    workspace_path: Path,
    *,
    read_only: bool = False,
    tasks: Backend | None = None,
    tools: Sequence[StrictTool] = TOOLS,
) -> StdioServer:
    """Return a server over the workspace folder, which is created when the first call needs it.

    Args:
        read_only: whether every tool that may change something refuses, on whatever transport.
        tasks: where tasks live; by default they are the workspace's runs and studies.
        tools: what agents may call.
    """
    app = AppContext(workspace_path)
    updates = Updates(app)
    server = StdioServer(
        "trainwright",
        title="Trainwright",
        version=trainwright.__version__,
        instructions=INSTRUCTIONS,
        tools=list(tools),
        lifespan=_lifespan(app, updates),
        subscriptions=updates,
        extensions=[run_apps(), Tasks(RunTasks(app) if tasks is None else tasks)],
        middleware=[Door(app, read_only=read_only)],
        log_level="WARNING",
    )
    updates.serve(server)
    add_resources(server)
    add_prompts(server)
    add_completions(server, app)
    return server


def _lifespan(
    app: AppContext, updates: Updates
) -> Callable[[MCPServer[AppContext]], AbstractAsyncContextManager[AppContext]]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[AppContext]) -> AsyncIterator[AppContext]:
        app.begin()
        updates.begin()
        try:
            yield app
        finally:
            app.close()

    return lifespan


# Completions: document paths, run ids and project names.

MAX_VALUES = 100
"""The protocol's bound on the values of one completion."""


def add_completions(server: MCPServer[AppContext], app: AppContext) -> None:
    """Register the one completion handler."""

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        reference: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        _: CompletionContext | None,
    ) -> Completion | None:
        if isinstance(reference, ResourceTemplateReference) and reference.uri == DOCUMENT_TEMPLATE:
            values = paths_beginning(argument.value)
        elif isinstance(reference, ResourceTemplateReference) and reference.uri == RUN_TEMPLATE:
            values = await anyio.to_thread.run_sync(_names, app, "run_id", argument.value)
        elif isinstance(reference, PromptReference):
            values = await anyio.to_thread.run_sync(_names, app, argument.name, argument.value)
        else:
            return None
        return Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)


def _names(app: AppContext, argument: str, beginning: str) -> list[str]:
    """Return the projects' names, or the runs' handles and ids, that begin so, the newest first."""
    from sqlalchemy import select

    from trainwright.tools.workspace.handles import run_handles
    from trainwright.tools.workspace.tables import Project

    sees = present_access().sees
    with app.workspace().snapshot() as session:
        if argument == "project":
            names = [
                name for name in session.scalars(select(Project.name).order_by(Project.created_at.desc())) if sees(name)
            ]
        elif argument == "run_id":
            runs = [(run, name) for run, name in reversed(run_handles(session).items()) if sees(run.partition("/")[0])]
            names = [handle if handle.startswith(beginning) else name for handle, name in runs]
        else:
            return []
    return [name for name in names if name.startswith(beginning)]


# Updates of resources: subscribers of a run's or a project's status hear when it has changed, in both eras.
#
# Clients of 2026-07-28 listen by `subscriptions/listen`, which the SDK serves from a bus; older ones subscribe to each
# resource, and are notified one by one.

RUN, PROJECT = "trainwright://runs/{}/status", "trainwright://projects/{}/status"
CHANGING = re.compile(r"trainwright://(?:runs|projects)/[\w/-]{1,160}/status", re.ASCII)
MAX_SUBSCRIBED = 64
"""Resources of one client."""


class Updates(InMemorySubscriptionBus):
    """The subscriptions of one server's clients."""

    def __init__(self, app: AppContext) -> None:
        """Hear from the application context, on whatever thread, what has changed."""
        super().__init__()
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[str, dict[int, Any]] = {}
        """Of each resource, the sessions to notify, one for each connection."""
        self._listing: dict[int, Any] = {}
        """The sessions that were answered a list of resources, one for each connection."""
        self._listed: tuple[int, dict[str, str]] | None = None
        """Version of the database, and what stood in the list then."""
        app.on_change = self.changed
        app.after_call = self.look

    def begin(self) -> None:
        """Send from the event loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a listener of the newest protocol."""
        self._follow()
        leave = super().subscribe(listener)
        if self._loop is not None:
            self._loop.run_in_executor(None, self._look_quietly)
        return leave

    def changed(self, project: str, run_id: str, handle: str) -> None:
        """Send that the status of a run, and so of its project, has changed. Called on any thread."""
        uris = [RUN.format(run_id), RUN.format(handle), PROJECT.format(project)]
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop has just ended
                asyncio.run_coroutine_threadsafe(self._send(uris), self._loop)

        self._look_quietly()

    def _look_quietly(self) -> None:
        with suppress(Exception):  # what follows runs goes on
            self.look()

    def look(self) -> None:
        """Send that the list of resources has changed, if it has. Called on any thread; cheap without a write."""
        if not self._listing and not self._listeners:
            return
        version = self._app.workspace().kept.version()
        if self._listed is not None and self._listed[0] == version:
            return
        before, self._listed = self._listed, (version, self._app.newest())
        is_changed = before is not None and before[1] != self._listed[1]
        if is_changed and self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop has just ended
                asyncio.run_coroutine_threadsafe(self._send_listed(), self._loop)

    async def _send_listed(self) -> None:
        await self.publish(ResourcesListChanged())
        for connection, session in list(self._listing.items()):
            try:
                await session.send_resource_list_changed()
            except Exception:  # noqa: BLE001 - as of a resource
                self._listing.pop(connection, None)

    async def _send(self, uris: list[str]) -> None:
        for uri in dict.fromkeys(uris):
            await self.publish(ResourceUpdated(uri=uri))
            for session in list(self._sessions.get(uri, {}).values()):
                try:
                    await session.send_resource_updated(uri)
                except Exception:  # noqa: BLE001 - a client that is gone hears nothing more, whatever its stream says
                    self._forget(uri, session)

    def _follow(self) -> None:
        """Follow the runs that are alive, although no tool was called: opening the workspace takes a while."""
        threading.Thread(target=self._app.open_and_follow, name="subscribed", daemon=True).start()

    def _forget(self, uri: str, session: Any) -> None:
        left = self._sessions.get(uri, {})
        left.pop(_connection(session), None)
        if not left:
            self._sessions.pop(uri, None)

    def _forget_all(self, connection: int) -> None:
        for uri in [uri for uri, those in self._sessions.items() if connection in those]:
            self._sessions[uri].pop(connection)
            if not self._sessions[uri]:
                self._sessions.pop(uri)

    async def subscribed(self, context: Any, params: SubscribeRequestParams) -> EmptyResult:
        """Serve `resources/subscribe` of the older protocols. Raises MCPError: the client has too many.

        Of a resource that never changes nothing is kept: who subscribes to it hears nothing.
        """
        connection = _connection(context.session)
        if CHANGING.fullmatch(params.uri) is not None:
            if sum(connection in those for those in self._sessions.values()) >= MAX_SUBSCRIBED:
                raise MCPError(code=INVALID_PARAMS, message=f"At most {MAX_SUBSCRIBED} subscriptions; end some first.")
            if not any(connection in those for those in self._sessions.values()):
                context.session._connection.exit_stack.callback(self._forget_all, connection)
            self._sessions.setdefault(params.uri, {})[connection] = context.session
            self._follow()
        return EmptyResult()

    async def listed(self, context: Any, _: PaginatedRequestParams | None) -> ListResourcesResult:
        """Serve `resources/list`: what is always there, and the status of the newest projects and runs."""
        connection, projects = _connection(context.session), present_access().projects
        if connection not in self._listing:
            context.session._connection.exit_stack.callback(self._listing.pop, connection, None)
            self._listing[connection] = context.session
        await anyio.to_thread.run_sync(self.look)  # what changes from here on is sent
        found = await anyio.to_thread.run_sync(self._app.newest, projects)
        own = [ListedResource(uri=uri, name=name, mime_type="application/json") for name, uri in found.items()]
        return ListResourcesResult(resources=[*await self._server.list_resources(), *own])

    async def unsubscribed(self, context: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        """Serve `resources/unsubscribe`."""
        self._forget(params.uri, context.session)
        return EmptyResult()

    def serve(self, server: MCPServer[AppContext]) -> None:
        """Register the methods of the older protocols, as the SDK's own examples do."""
        self._server, lowlevel = server, server._lowlevel_server  # the SDK has no other way
        lowlevel.add_request_handler("resources/list", PaginatedRequestParams, self.listed)
        lowlevel.create_initialization_options = partial(  # type: ignore[method-assign]
            lowlevel.create_initialization_options, NotificationOptions(resources_changed=True)
        )
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribed)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribed)


def _connection(session: Any) -> int:
    """Return what tells one client's connection from others'; each request has a session of its own over it."""
    return id(session._connection)  # the session keeps it alive


# Prompts: one Markdown file each in `prompts/`, with its arguments and tools in the front matter.

PROMPTS = Path(__file__).resolve().parents[1] / "prompts"


class Argument(Closed):
    """One argument of a prompt."""

    name: str
    description: str
    required: bool = False
    default: str = ""


class PromptFile(Closed):
    """The front matter of a prompt file."""

    name: str
    title: str
    description: str
    tools: list[str]
    """The tools that the prompt will use."""
    arguments: list[Argument] = Field(default_factory=list)


class StrictPrompt(Prompt):
    """A prompt that says which arguments are missing or unknown; the SDK reports an internal error instead."""

    async def render(
        self, arguments: dict[str, Any] | None, context: Context[Any, Any]
    ) -> list[Message] | InputRequiredResult:
        """Fill the prompt in. Raises MCPError (invalid parameters) naming the arguments that do not fit."""
        known = self.arguments or []
        given = set(arguments or {})
        missing = [argument.name for argument in known if argument.required and argument.name not in given]
        unknown = sorted(given - {argument.name for argument in known})
        if missing or unknown:
            problems = [f"`{name}` is required" for name in missing] + [
                f"unknown argument `{name}`" for name in unknown
            ]
            names = ", ".join(argument.name for argument in known)
            raise MCPError(
                code=INVALID_PARAMS, message=f"Prompt {self.name}: {'; '.join(problems)}. Its arguments are: {names}."
            )
        return await super().render(arguments, context)


def add_prompts(server: MCPServer[AppContext]) -> None:
    """Register every prompt file. Raises ConfigurationError when one is not valid."""
    for path in prompt_files():
        front, body = read_document(path, PromptFile)
        server.add_prompt(
            StrictPrompt(
                name=front.name,
                title=front.title,
                description=front.description,
                arguments=[
                    PromptArgument(name=argument.name, description=argument.description, required=argument.required)
                    for argument in front.arguments
                ],
                fn=_renderer(front, body.strip()),
                context_kwarg=None,
            )
        )


def prompt_files(folder: Path = PROMPTS) -> list[Path]:
    """Return the prompt files in order of name."""
    return sorted(path for path in folder.glob("*.md") if path.name != "README.md")


def _renderer(front: PromptFile, body: str) -> Callable[..., str]:
    """Return the function that fills the body's `{{name}}` places."""

    def render(**values: str) -> str:
        text = body
        for argument in front.arguments:
            text = text.replace("{{" + argument.name + "}}", values.get(argument.name) or argument.default)
        return text

    return render
