"""The skill's documents, for clients that do not read resources."""

from __future__ import annotations

from typing import Annotated

from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, content_only
from trainwright.tools.answers import NextCall


@agent_tool("server.surface.answers:DocumentAnswer", title="Read a document", read_only=True, structured=False)
def read_document(
    path: Annotated[
        str, Field(max_length=300, description="e.g. configs/searches.md, its #gpus, a key: data.split, or some words")
    ] = "SKILL.md",
    offset: Annotated[int, Field(ge=0, description="Character to continue from")] = 0,
) -> CallToolResult:
    """Read one of the documents: workflows, the enforced checklists, diagnostics, configuration. SKILL.md lists them.
    Long ones come in pages, with the sections that follow; of a key, what all of them say."""
    from trainwright.server import documents
    from trainwright.server.surface.answers import DocumentAnswer
    from trainwright.trainer.config import TrainingConfig

    is_key = documents.KEY.fullmatch(path) or path in TrainingConfig.model_fields
    said = documents.passages(path) if is_key else ""
    if documents.is_question(path):
        said = "\n".join(f"- {one}" for one in documents.sections_about(path))
    if said:
        answer = DocumentAnswer(path=path, text=said, offset=0, total_characters=len(said))
        return content_only(answer, f"`{path}` in the documents\n\n{said}", omit=set(DocumentAnswer.model_fields))
    path, _, anchor = path.partition("#")
    path = documents.resolve(path)
    offset = offset or (documents.section_at(path, anchor) if anchor else 0)
    text, total, next_offset = documents.read_page(path, offset)
    later = [
        name for name, start in documents.sections(documents.read_text(path)).items() if start >= (next_offset or total)
    ]
    why = f"the next page; sections to come: {', '.join(f'#{name}' for name in later)}" if later else "the next page"
    more = NextCall(tool="read_document", arguments={"path": path, "offset": next_offset}, why=why)
    answer = DocumentAnswer(
        path=path,
        text=text,
        offset=offset,
        total_characters=total,
        next_offset=next_offset,
        next=more if next_offset is not None else None,
    )
    headline = f"{documents.title_of(path)} ({path}, characters {offset} to {offset + len(text)} of {total})\n\n{text}"
    return content_only(answer, headline, omit=set(DocumentAnswer.model_fields))
