"""Failures as an agent reads them, all in one form: what happened, the rule, the next call to make.

An expected failure (TrainwrightError, wrong arguments, a full disk) reaches the agent in full. Anything else is a
defect of ours: the agent gets an incident id, and the traceback stays in the server's log file.
"""

from __future__ import annotations

import errno
import logging
import secrets
from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, TextContent
from pydantic import ValidationError

from trainwright.server.access import present_access
from trainwright.server.markdown import call_text, offered
from trainwright.trainer.base.errors import ConfigurationError, StorageError, TrainwrightError, near
from trainwright.trainer.base.text import visible_lines

logger = logging.getLogger("trainwright")

_STORAGE_ERRNOS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
_SHOWN_VALUE_CHARACTERS = 80
MAX_CHECKS = 8


def explain(error: TrainwrightError) -> str:
    """Return the error as the agent reads it: message, failed checks, remedy, document."""
    failed = _failed_checks(error.details.get("checks"))
    message = error.message.partition(f" {failed[0].get('id')}: ")[0] if failed else error.message
    call = error.details.get("next")
    lines = [message, *(_check_line(check, call) for check in failed[:MAX_CHECKS])]
    if len(failed) > MAX_CHECKS:
        lines.append(f"- and {len(failed) - MAX_CHECKS} more checks; project_status shows all")
    lines += _other_problems(error.details.get("problems"), error.message)
    lines.append(f"Remedy: {_remedy(error, call)}")
    if error.document:
        lines.append(f"Document: read_document(path='{error.document}')")
    return visible_lines("\n".join(lines))


def _remedy(error: TrainwrightError, call: Mapping[str, Any] | None) -> str:
    """Return the call that fixes it, and the alternatives if a name was only guessed."""
    if not call:
        return error.remedy
    words = f"{_call(call)}{_why(call)}"
    if error.remedy.startswith(words):
        return error.remedy
    return f"{words} ({error.remedy})" if "instead" in error.details else words


def from_afar(error: Exception) -> Exception:
    """Return the error about a path that is not here, which the caller's machine may have, with the way to bring it."""
    if isinstance(error, TrainwrightError) and "absent" in error.details and present_access().token is not None:
        error.message += (
            " Paths are this server's: a folder of yours comes here by `trainwright push FOLDER --url ADDRESS`, which "
            "says the code_root to name."
        )
    return error


def as_tool_error(error: Exception) -> ToolError:
    """Turn any exception of a tool into the ToolError that the agent reads; log unexpected ones."""
    if isinstance(error, ToolError):
        return error
    if (known := expected(error)) is not None:
        return ToolError(explain(known))
    incident = secrets.token_hex(4)
    logger.error("incident %s", incident, exc_info=error)
    return ToolError(
        f"Something went wrong inside the server (incident {incident}, {type(error).__name__}). "
        "Running runs continue.\n"
        "Remedy: call project_status() and try again; if it happens again, give the incident id to the "
        "workspace's owner, who finds the details in logs/server.log of the workspace."
    )


def expected(error: Exception) -> TrainwrightError | None:
    """Return the failure as one that the caller can act on; None for a defect of ours."""
    if isinstance(error, OSError) and error.errno in _STORAGE_ERRNOS:
        return StorageError(
            f"The workspace could not be written: {error.strerror}.",
            remedy="Free disk space or make the folder writable (`trainwright doctor` checks both), then call again.",
        )
    return error if isinstance(error, TrainwrightError) else None


def refusal(error: Exception) -> CallToolResult:
    """Return a failure as an agent gets it: as text, and as structured content with the next call ready to make."""
    text = str(as_tool_error(error))
    facts: dict[str, Any] = {"message": text}
    if (known := expected(error)) is not None:
        call = known.details.get("next")
        facts = {
            "category": known.category,
            "message": known.message,
            "remedy": known.remedy,
            **({"document": known.document} if known.document else {}),
            **({"next": {name: value for name, value in offered(call).items() if name != "why"}} if call else {}),
        }
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=facts, is_error=True)


def argument_error(
    tool: str, error: ValidationError, schema: Mapping[str, Any], repaired: Mapping[str, Any] | None
) -> ConfigurationError:
    """Return the error for arguments that do not fit the tool's schema, one line for each of them.

    Args:
        repaired: arguments that would be accepted, if they are known.
    """
    problems = [_explain_argument(problem, schema) for problem in error.errors(include_url=False)]
    names = ", ".join(schema.get("properties", {})) or "none"
    lines = [f"{tool} cannot be called like this:", *(f"- {problem}" for problem in problems[:MAX_CHECKS])]
    return ConfigurationError(
        "\n".join(lines),
        remedy=f"call {tool} again with these corrected; its arguments are: {names}.",
        details={"next": {"tool": tool, "arguments": dict(repaired)}} if repaired is not None else {},
    )


def with_call(error: Exception, tool: str, arguments: Mapping[str, Any]) -> Exception:
    """Return the error with the complete next call, if it says how to correct this call's arguments.

    `details["amend"]` has arguments to give instead (None: leave it out), `details["instead"]` names to replace.
    """
    if not isinstance(error, TrainwrightError) or "next" in error.details:
        return error
    amend, others = error.details.get("amend"), error.details.get("instead")
    if amend is None and not others:
        return error
    from trainwright.server.argument_repair import with_values

    complete = with_values(arguments, others or {}, error.details.get("key", "")) | (amend or {})
    call = {"tool": tool, "arguments": {name: value for name, value in complete.items() if value is not None}}
    error.details |= {"next": call}
    return error


def _failed_checks(checks: object) -> list[dict[str, Any]]:
    found = [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []
    return [check for check in found if check.get("status", "failed") == "failed"]


def _check_line(check: dict[str, Any], remedy: Mapping[str, Any] | None) -> str:
    """Return the measured and the required value, and the call that fixes it if the remedy is a different one."""
    line = f"- {check.get('id')}: measured {check.get('measured')}; required {check.get('required')}"
    call = check.get("next")
    is_same = call and remedy and (call["tool"], call["arguments"]) == (remedy.get("tool"), remedy.get("arguments"))
    return line if not call or is_same else f"{line}; call {_call(call)}"


def _call(call: Mapping[str, Any]) -> str:
    call = offered(call)
    return call_text(call["tool"], call["arguments"])


def _why(call: Mapping[str, Any]) -> str:
    return f" - {call['why']}" if call.get("why") else ""


def _other_problems(problems: object, message: str) -> list[str]:
    """Return the problems that the message does not already name."""
    if not isinstance(problems, list):
        return []
    return [f"- {problem}" for problem in problems[:8] if str(problem) not in message]


def _explain_argument(problem: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    *parents, name = [str(part) for part in problem["loc"]] or ["(all)"]
    key = ".".join([*parents, name])
    if problem["type"] == "extra_forbidden":
        known = _properties_at(schema, parents)
        nearest = near(name, known)
        hint = f"did you mean `{nearest[0]}`?" if nearest else f"known: {', '.join(known) or 'none'}"
        return f"unknown argument `{key}`; {hint}"
    if problem["type"] == "missing":
        return f"`{key}` is required"
    reason = problem["msg"].removeprefix("Value error, ")
    if problem["type"] in {"model_type", "model_attributes_type"}:
        reason = f"an object with the keys {', '.join(_properties_at(schema, [*parents, name]))} is needed"
    return f"`{key}` = {_shown(problem.get('input'))}: {reason}"


def _properties_at(schema: Mapping[str, Any], path: list[str]) -> list[str]:
    for part in path:
        schema = schema.get("properties", {}).get(part, {})
    return list(schema.get("properties", {}))


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_VALUE_CHARACTERS else text[: _SHOWN_VALUE_CHARACTERS - 3] + "..."
