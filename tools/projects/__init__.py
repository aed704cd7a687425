"""Operations on a project: creating it, changing its configuration, reading its status, passing its gates."""

from trainwright.tools.projects.advancing import Advance, advance
from trainwright.tools.projects.comparing import ComparisonAnswer, CurvesAnswer, compare_runs, plot_metrics, plot_study
from trainwright.tools.projects.configuration import ConfigurationAnswer, ask_for, configure
from trainwright.tools.projects.creation import create_project, settled_values
from trainwright.tools.projects.deletion import DeletionAnswer, delete_project, finish_deletions
from trainwright.tools.projects.diagnosis import diagnose
from trainwright.tools.projects.diagnosis_answer import DiagnosisAnswer
from trainwright.tools.projects.passing import GateAnswer, pass_gate
from trainwright.tools.projects.status import (
    ProjectStatus,
    count_projects,
    newest_first,
    overview,
    project_names,
    project_status,
    read_status,
)
