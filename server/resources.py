"""Documents and runs as resources, for clients that read them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from mcp.server.mcpserver.resources import Resource
from mcp.types import Annotations

from trainwright.server import documents, files
from trainwright.server.context import AppContext, workspace_of
from trainwright.server.errors import as_tool_error, explain
from trainwright.server.markdown import facts_of
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, TrainwrightError

DOCUMENT_TEMPLATE = f"{documents.URI_PREFIX}{{+path}}"
DATA_TEMPLATE = f"{files.ROOT}{{project}}/data/{{version}}"
PIPELINE_TEMPLATE = f"{files.ROOT}{{project}}/pipeline"
STAGES_TEMPLATE = f"{files.ROOT}{{project}}/pipeline/{{file}}"
INDEX_URI = "trainwright://documents"
Content = TypeVar("Content", str, bytes)
RUN_TEMPLATE = "trainwright://runs/{+run_id}/status"
PROJECT_TEMPLATE = f"{files.ROOT}{{project}}/status"


class DocumentResource(Resource):
    """One document of the skill, read from its file at each request."""

    path: str

    async def read(self) -> str:
        """Return the full text."""
        return await anyio.to_thread.run_sync(documents.read_text, self.path)


class IndexResource(Resource):
    """The list of all documents, one line a folder."""

    async def read(self) -> str:
        """Return Markdown: the address of each folder, and the names of its documents."""
        folders: dict[str, list[str]] = {}
        for path in documents.document_paths():
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
        lines = [
            f"- {documents.URI_PREFIX}{folder and folder + '/'}: {', '.join(names)}"
            for folder, names in folders.items()
        ]
        return "# Trainwright's documents\n\n" + "\n".join(lines) + "\n"


def add_resources(server: MCPServer[AppContext]) -> None:
    """Register the index, the documents to begin with, and the templates for all documents, projects and runs."""
    server.add_resource(
        IndexResource(
            uri=INDEX_URI,
            name="documents",
            title="Index of the documents",
            mime_type="text/markdown",
            annotations=Annotations(priority=1.0),
        )
    )
    for path in (documents.INDEX, documents.BEGIN):
        server.add_resource(
            DocumentResource(uri=documents.URI_PREFIX + path, name=path, mime_type="text/markdown", path=path)
        )
    server.resource(DOCUMENT_TEMPLATE, name="document", title="A document of the skill", mime_type="text/markdown")(
        _document
    )
    server.resource(RUN_TEMPLATE, name="run_status", title="Status of a run", mime_type="application/json")(_run)
    server.resource(PROJECT_TEMPLATE, name="project_status", title="Status of a project", mime_type="application/json")(
        _project
    )
    server.resource(files.REPORT_TEMPLATE, name="report", title="A project's report", mime_type="text/markdown")(
        _report
    )
    server.resource(DATA_TEMPLATE, name="data_version", title="Card of a data version", mime_type="text/markdown")(
        _data
    )
    server.resource(PIPELINE_TEMPLATE, name="pipeline", title="Stages of a project", mime_type="text/markdown")(
        _pipeline
    )
    server.resource(STAGES_TEMPLATE, name="pipeline_file", title="A file of the pipeline", mime_type="text/plain")(
        _pipeline_file
    )
    server.resource(files.PICTURE_TEMPLATE, name="picture", title="A project's plot", mime_type="image/png")(_picture)


def _document(path: str) -> str:
    """One of the documents that trainwright://documents lists."""
    return _worded(documents.read_text, path)


def _run(run_id: str, context: Context[Any, Any]) -> str:
    """State, progress and alerts of a run, as run_status returns them."""
    return _worded(_run_json, context, run_id)


def _project(project: str, context: Context[Any, Any]) -> str:
    """Phase, checks, runs and open alerts of a project, as project_status returns them."""
    return _worded(_project_json, context, project)


def _report(project: str, path: str, context: Context[Any, Any]) -> str:
    """A report that the server wrote: baseline, diagnosis, tuning, model card."""
    return _worded(files.read_report, project, path, context)


def _data(project: str, version: str, context: Context[Any, Any]) -> str:
    """A data version's card (v2, latest), or what differs between two (v1..v2)."""
    from trainwright.tools.pipeline import data_document

    return _worded(data_document, workspace_of(context), project, version)


def _pipeline(project: str, context: Context[Any, Any]) -> str:
    """The project's stages from ingestion to registration: state, inputs, outputs, digests."""
    from trainwright.tools.pipeline import pipeline_document

    return _worded(pipeline_document, workspace_of(context), project)


def _pipeline_file(project: str, file: str, context: Context[Any, Any]) -> str:
    """dvc.yaml, kubeflow_pipeline.py, trainwright.yaml, trainwright.Dockerfile: the same stages; for the code root."""
    from trainwright.tools.pipeline import pipeline_files

    return _worded(lambda: _one_of(pipeline_files(workspace_of(context), project), file))


def _one_of(found: dict[str, str], file: str) -> str:
    if file not in found:
        raise NotFoundError(f"The pipeline has no file {file[:60]!r}.", remedy=f"There are: {', '.join(found)}.")
    return found[file]


def _picture(project: str, path: str, context: Context[Any, Any]) -> bytes:
    """A plot that the server drew."""
    return _worded(files.read_picture, project, path, context)


def _run_json(context: Context[Any, Any], run_id: str) -> str:
    from trainwright.server.surface.arguments import run_of
    from trainwright.tools.training_orchestrator import refresh_run

    workspace = workspace_of(context)
    view = refresh_run(workspace, run_of(workspace, run_id))
    return json.dumps(context.request_context.lifespan_context.with_handles(facts_of(view)))


def _project_json(context: Context[Any, Any], project: str) -> str:
    from trainwright.tools.projects import ProjectStatus, project_status

    status = project_status(workspace_of(context), project)
    assert isinstance(status, ProjectStatus)  # noqa: S101 - one name gives one status
    return json.dumps(context.request_context.lifespan_context.with_handles(facts_of(status)))


def _worded(function: Callable[..., Content], *arguments: Any) -> Content:
    """Call the function; failures become resource errors with message and remedy."""
    try:
        return function(*arguments)
    except (NotFoundError, ConfigurationError) as error:
        raise ResourceNotFoundError(explain(error)) from error
    except TrainwrightError as error:
        raise ResourceError(explain(error)) from error
    except Exception as error:  # worded for the agent like a tool's failure
        raise ResourceError(str(as_tool_error(error))) from error
