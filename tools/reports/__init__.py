"""The artifacts of each phase: files that the server writes from evidence, never from what an agent says."""

from trainwright.tools.reports.writing import write_artifacts

__all__ = ["write_artifacts"]
