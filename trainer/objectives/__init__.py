"""Objectives: functions of (model, batch) that give a loss and named values."""

from trainwright.trainer.objectives.outcome import NoObjective, Objective, Outcome

__all__ = ["NoObjective", "Objective", "Outcome"]
