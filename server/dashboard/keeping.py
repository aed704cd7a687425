"""A project's pages in one file that needs no server: the live page's bundle, with its answers inside."""

from __future__ import annotations

import json
from typing import Any

from trainwright.server.dashboard.application import bundle
from trainwright.tools import dashboard
from trainwright.tools.dashboard.curves import MAX_KEYS
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.secret_scan import masked_values

MAX_RUNS = 60
"""Of the newest; each is some hundred kilobytes."""


def kept_page(workspace: Workspace, project: str) -> str:
    """Return the HTML of a project's pages, its newest runs and its studies, every secret in them as `***`.

    Raises NotFoundError, IntegrityError.
    """
    page = dashboard.project_page(workspace, project)
    answers: dict[str, Any] = {
        f"api/projects/{project}": page.model_dump(mode="json"),
        f"api/projects/{project}/ledger": dashboard.ledger_page(workspace, project).model_dump(mode="json"),
    }
    for run in page.runs[:MAX_RUNS]:
        answers |= _of_run(workspace, run.run_id)
    for study in page.studies:
        answers[f"api/studies/{study.study_id}"] = dashboard.study_page(workspace, study.study_id).model_dump(
            mode="json"
        )
    kept = json.dumps({"home": f"#/projects/{project}", "answers": masked_values(answers)}).replace("<", "\\u003c")
    element = f'<script type="application/json" id="kept">{kept}</script>'
    return bundle().html.replace("<script>", f"{element}\n<script>", 1)


def _of_run(workspace: Workspace, run_id: str) -> dict[str, Any]:
    page = dashboard.run_page(workspace, run_id)
    curves: dict[str, Any] = {"curves": {}, "cursor": None}
    for start in range(0, len(page.keys), MAX_KEYS):
        part = dashboard.curves(workspace, run_id, page.keys[start : start + MAX_KEYS])
        curves["curves"] |= part.model_dump(mode="json")["curves"]
    return {f"api/runs/{run_id}": page.model_dump(mode="json"), f"api/runs/{run_id}/curves": curves}
