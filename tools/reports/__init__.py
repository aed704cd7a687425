"""The artifacts of each phase: files that the server writes from evidence, never from an agent's words."""

from trainwright.tools.reports.final_model import draft_artifacts
