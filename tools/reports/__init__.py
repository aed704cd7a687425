"""The artifacts of each phase: files that the server writes from evidence, never from what an agent says."""

from trainwright.tools.reports.writing import draft_artifacts

__all__ = ["draft_artifacts"]
