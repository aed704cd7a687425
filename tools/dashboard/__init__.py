"""View models of the page in the browser: projections of what the other rooms compute, read without any lock."""

from trainwright.tools.dashboard.changes import RunChanges, WorkspaceChanges
from trainwright.tools.dashboard.curves import comparison_page, curves, run_glance
from trainwright.tools.dashboard.overview import overview
from trainwright.tools.dashboard.project_page import ledger_page, project_page
from trainwright.tools.dashboard.run_page import run_page
from trainwright.tools.dashboard.study_page import study_page
