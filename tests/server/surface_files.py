"""Files derived from the tools: `tools/INDEX.md` and the locked surface.

`python tests/server/surface_files.py` checks whether they fit the code; with `--write` it writes them, which is how the
public surface is changed on purpose.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from trainwright.server.agent_tool import StrictTool
from trainwright.server.surface import TOOLS

ROOT = Path(__file__).resolve().parents[2]
HEADER = """\
# Tools

Generated from the code by `python tests/server/surface_files.py --write`; a test compares it.
Every answer carries `next`, the recommended call. It comes as Markdown and, with the same facts, as structured
content; documents and pictures come as content alone. Unknown arguments are errors.

| tool | purpose | hints |
|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write the files with `--write`; otherwise name those that do not fit the code. Returns the exit status."""
    stale = {path: text for path, text in derived_files().items() if not path.exists() or path.read_text() != text}
    for path, text in stale.items():
        sys.stdout.write(
            f"{'wrote' if '--write' in arguments else 'does not fit the code'}: {path.relative_to(ROOT)}\n"
        )
        if "--write" in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if stale and "--write" not in arguments else 0


def derived_files() -> dict[Path, str]:
    """Return the path and text of every derived file."""
    locked = json.dumps([_surface(tool) for tool in TOOLS], indent=1) + "\n"
    return {ROOT / "tools" / "INDEX.md": index_text(), ROOT / "tests" / "server" / "snapshots" / "tools.json": locked}


def _answer_schemas(tool: StrictTool) -> list[dict[str, Any]]:
    return [_model(answer).model_json_schema(mode="serialization") for answer in tool.answers]


def index_text() -> str:
    """Return `tools/INDEX.md`."""
    rows = [f"| [`{tool.name}`](#{tool.name}) | {tool.title} | {', '.join(_hints(tool)) or '-'} |" for tool in TOOLS]
    return HEADER + "\n".join(rows) + "\n\n" + "\n\n".join(_section(tool) for tool in TOOLS) + "\n"


def _section(tool: StrictTool) -> str:
    required = tool.parameters.get("required", [])
    lines = [f"## {tool.name}", "", tool.description, ""]
    for name, node in tool.parameters.get("properties", {}).items():
        kind = " \\| ".join(f"`{value}`" for value in node["enum"]) if "enum" in node else node.get("type", "any")
        about = f": {node['description']}" if "description" in node else ""
        default = f", default `{json.dumps(node['default'])}`" if "default" in node else ""
        lines.append(f"- `{name}` ({kind}{', required' if name in required else default}){about}")
    fields = dict.fromkeys(name for schema in _answer_schemas(tool) for name in schema["properties"])
    return "\n".join([*lines, "", f"Answers: {', '.join(f'`{name}`' for name in fields)}."])


def _surface(tool: StrictTool) -> dict[str, Any]:
    """Return what a client sees of the tool."""
    seen = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {},
        "_meta": tool.meta,
    }
    return {name: part for name, part in seen.items() if part is not None}


def _hints(tool: StrictTool) -> list[str]:
    hints = tool.annotations
    if hints is None:
        return []
    named = {
        "reads only": hints.read_only_hint,
        "stops work": hints.destructive_hint,
        "repeatable": hints.idempotent_hint,
    }
    return [name for name, holds in named.items() if holds]


def _model(answer: str) -> Any:
    module, _, name = answer.partition(":")
    return getattr(importlib.import_module(f"trainwright.{module}"), name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
