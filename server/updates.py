"""Updates of resources: subscribers of a run's or a project's status hear when it has changed, in both eras.

Clients of 2026-07-28 listen by `subscriptions/listen`, which the SDK serves from a bus; older ones subscribe to each
resource, and are notified one by one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mcp.server import MCPServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ServerEvent
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

from trainwright.server.context import AppContext

RUN, PROJECT = "trainwright://runs/{}/status", "trainwright://projects/{}/status"


class Updates(InMemorySubscriptionBus):
    """The subscriptions of one server's clients."""

    def __init__(self, app: AppContext) -> None:
        """Hear from the application context, on whatever thread, what has changed."""
        super().__init__()
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sessions: dict[str, dict[int, Any]] = {}
        """Of each resource, the sessions to notify, one for each connection."""
        app.on_change = self.changed

    def begin(self) -> None:
        """Send from the event loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Add a listener of the newest protocol."""
        self._follow()
        return super().subscribe(listener)

    def changed(self, project: str, run_id: str, handle: str) -> None:
        """Send that the status of a run, and so of its project, has changed. Called on any thread."""
        uris = [RUN.format(run_id), RUN.format(handle), PROJECT.format(project)]
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # the loop has just ended
                asyncio.run_coroutine_threadsafe(self._send(uris), self._loop)

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
        self._sessions.get(uri, {}).pop(_connection(session), None)

    async def subscribed(self, context: Any, params: SubscribeRequestParams) -> EmptyResult:
        """Serve `resources/subscribe` of the older protocols."""
        self._sessions.setdefault(params.uri, {})[_connection(context.session)] = context.session
        self._follow()
        return EmptyResult()

    async def unsubscribed(self, context: Any, params: UnsubscribeRequestParams) -> EmptyResult:
        """Serve `resources/unsubscribe`."""
        self._forget(params.uri, context.session)
        return EmptyResult()

    def serve(self, server: MCPServer[AppContext]) -> None:
        """Register the methods of the older protocols, as the SDK's own examples do."""
        lowlevel = server._lowlevel_server  # the SDK has no other way
        lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, self.subscribed)
        lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self.unsubscribed)


def _connection(session: Any) -> int:
    """Return what tells one client's connection from others'; each request has a session of its own over it."""
    return id(session._connection)  # the session keeps it alive
