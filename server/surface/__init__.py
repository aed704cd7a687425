"""The tools that agents see, one file per area, in the order in which a project meets them."""

from trainwright.server.agent_tool import StrictTool
from trainwright.server.surface.architect import plan_training
from trainwright.server.surface.checkpoints import export_model, list_checkpoints, prune_checkpoints
from trainwright.server.surface.costs import estimate_cost
from trainwright.server.surface.data import validate_data
from trainwright.server.surface.documents import read_document
from trainwright.server.surface.monitoring import compare_runs, diagnose_run, open_dashboard, plot_metrics
from trainwright.server.surface.projects import advance, configure, create_project, pass_gate, project_status
from trainwright.server.surface.registry import models, promote_model
from trainwright.server.surface.runs import (
    resume_training,
    run_status,
    start_training,
    stop_training,
    verify_reproducibility,
)
from trainwright.server.surface.tuning import start_tuning, tuning_status

TOOLS: tuple[StrictTool, ...] = (
    plan_training,
    create_project,
    configure,
    project_status,
    pass_gate,
    advance,
    validate_data,
    start_training,
    run_status,
    stop_training,
    resume_training,
    diagnose_run,
    plot_metrics,
    compare_runs,
    open_dashboard,
    start_tuning,
    tuning_status,
    list_checkpoints,
    prune_checkpoints,
    verify_reproducibility,
    export_model,
    models,
    promote_model,
    estimate_cost,
    read_document,
)

__all__ = ["TOOLS"]
