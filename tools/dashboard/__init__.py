"""View models of the page in the browser: projections of what the other rooms compute, read without any lock."""

from trainwright.tools.dashboard.changes import RunChanges, WorkspaceChanges
from trainwright.tools.dashboard.comparison import ComparisonPage, comparison_page
from trainwright.tools.dashboard.curves import Curves, RunGlance, curves, run_glance
from trainwright.tools.dashboard.overview import Overview, overview
from trainwright.tools.dashboard.project_page import LedgerPage, ProjectPage, ledger_page, project_page
from trainwright.tools.dashboard.run_page import RunPage, run_page
from trainwright.tools.dashboard.study_page import StudyPage, study_page

__all__ = [
    "ComparisonPage",
    "Curves",
    "LedgerPage",
    "Overview",
    "ProjectPage",
    "RunChanges",
    "RunGlance",
    "RunPage",
    "StudyPage",
    "WorkspaceChanges",
    "comparison_page",
    "curves",
    "ledger_page",
    "overview",
    "project_page",
    "run_glance",
    "run_page",
    "study_page",
]
