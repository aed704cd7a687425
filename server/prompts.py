"""Prompts: one Markdown file each in `prompts/`, with its arguments and tools in the front matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.prompts.base import Message, PromptArgument
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS, InputRequiredResult
from pydantic import BaseModel, ConfigDict

from trainwright.tools.documents import read_document

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from trainwright.server.context import AppContext

PROMPTS = Path(__file__).resolve().parents[1] / "prompts"


class Argument(BaseModel):
    """One argument of a prompt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str
    required: bool = False
    default: str = ""


class PromptFile(BaseModel):
    """The front matter of a prompt file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    description: str
    tools: list[str]
    """The tools that the prompt will use."""
    arguments: list[Argument] = []


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


def add_prompts(server: MCPServer[AppContext], folder: Path = PROMPTS) -> None:
    """Register every prompt file of the folder. Raises ConfigurationError when one is not valid."""
    for path in prompt_files(folder):
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
