"""Stdio transport that answers every line: the SDK drops lines that it cannot parse, and the sender waits forever.

JSON that Python clients write and the SDK's parser refuses: lone surrogates, nesting beyond 200 levels, integers of
thousands of digits.
"""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from trainwright.server.names import NamingServer

if TYPE_CHECKING:
    from starlette.applications import Starlette

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]')
_ID = re.compile(r'\s*:\s*(-?\d{1,15}|"(?:[^"\\]|\\.){0,200}")\s*[,}]')
REMEDY = "Send plain JSON: no lone surrogates, no deep nesting, no integers of thousands of digits."


class StdioServer(NamingServer):
    """A server that answers unparsable requests over stdio too, and the same object over HTTP."""

    def http_application(self, **options: Any) -> Starlette:
        """Return the application that serves it over Streamable HTTP; the options are the SDK's, tokens among them.

        They are known only once the port is taken, and the SDK's public method has them from the constructor.
        """
        return self._lowlevel_server.streamable_http_app(**options)

    async def run_stdio_async(self) -> None:
        """Serve stdin and stdout until the client closes them."""
        async with stdio_server() as (incoming, outgoing):
            lowlevel = self._lowlevel_server
            options = lowlevel.create_initialization_options()
            await lowlevel.run(_Answered(incoming, outgoing), outgoing, options)


class _Answered:
    """Stream of incoming messages without the unparsable ones, which are answered instead."""

    def __init__(self, incoming: Any, outgoing: Any) -> None:
        self.incoming, self.outgoing = incoming, outgoing

    @property
    def last_context(self) -> Any:
        return self.incoming.last_context

    async def receive(self) -> Any:
        while True:
            item = await self.incoming.receive()
            line = unparsable_line(item)
            if line is None:
                return item
            error = ErrorData(code=PARSE_ERROR, message=f"Parse error: this line is not JSON. {REMEDY}")
            answer = JSONRPCError(jsonrpc="2.0", id=request_id(line), error=error)
            await self.outgoing.send(SessionMessage(answer))

    async def aclose(self) -> None:
        await self.incoming.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def unparsable_line(item: object) -> str | None:
    """Return the line that was not JSON, if the transport passed on the error about one."""
    if not isinstance(item, ValidationError):
        return None
    problem = item.errors(include_url=False)[0]
    line = problem["input"]
    return line if problem["type"] == "json_invalid" and isinstance(line, str) and line.strip() else None


def request_id(line: str) -> int | str | None:
    """Return the `id` of a message that need not be JSON: an integer or a string at its top level."""
    depth = 0
    for token in _TOKEN.finditer(line):
        sign = token.group()
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(sign, 0)
        found = _ID.match(line, token.end()) if depth == 1 and sign == '"id"' else None
        if found:
            value: int | str = json.loads(found.group(1))
            return value if isinstance(value, int) or value.isascii() else None
    return None
