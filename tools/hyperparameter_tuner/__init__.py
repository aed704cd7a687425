"""Hyperparameter search: suggestions as pure functions of our own trial table, trials as runs, a verdict over seeds."""

from trainwright.tools.hyperparameter_tuner.report import tuning_report
from trainwright.tools.hyperparameter_tuner.stop import stop_study
from trainwright.tools.hyperparameter_tuner.study import start_study
from trainwright.tools.hyperparameter_tuner.views import StudyView, study_status
