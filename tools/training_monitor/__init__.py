"""Monitoring of a run's record: alerts from the diagnostic documents, learning curves, figures, reports."""

from trainwright.tools.training_monitor.assessment import Assessment, assess
from trainwright.tools.training_monitor.compare import RunComparison, compare_runs
from trainwright.tools.training_monitor.diagnosis import Alert, diagnose
from trainwright.tools.training_monitor.documents import DOCUMENTS, Diagnostic, diagnostics_digests, load_diagnostics
from trainwright.tools.training_monitor.report import diagnostic_report
from trainwright.trainer.run import Goal
