"""Unknown tools and prompts: a protocol error with the nearest name, and nothing on stderr.

The SDK answers an unknown tool as a failed call, and logs an unknown prompt with its traceback.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult

from trainwright.server.context import AppContext
from trainwright.trainer.base.errors import near

SHOWN_CHARACTERS = 80


class NamingServer(MCPServer[AppContext]):
    """The SDK's server, with the nearest name in the error for an unknown one."""

    @cached_property
    def _tools_called(self) -> set[str]:
        return set()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[AppContext, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises MCPError (invalid parameters) where there is none of this name."""
        if name not in self._tools_called:  # listing them all takes longer than many a call
            known = [tool.name for tool in await self.list_tools()]
            if name not in known:
                _refuse("tool", name, known)
            self._tools_called.add(name)
        return await super().call_tool(name, arguments, context)

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[AppContext, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        """Fill in a prompt. Raises MCPError (invalid parameters) where there is none of this name."""
        known = [prompt.name for prompt in await self.list_prompts()]
        if name not in known:
            _refuse("prompt", name, known)
        return await super().get_prompt(name, arguments, context)


def _refuse(what: str, name: str, known: list[str]) -> NoReturn:
    shown, nearest = name[:SHOWN_CHARACTERS], next(iter(near(name, known)), None)
    hint = f"Did you mean `{nearest}`? " if nearest else ""
    raise MCPError(
        code=INVALID_PARAMS,
        message=f"There is no {what} `{shown}`. {hint}The {what}s are: {', '.join(known)}.",
        data={what: shown, "nearest": nearest, "known": known},
    )
