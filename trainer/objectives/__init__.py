"""Objectives: functions of (model, batch) that give a loss and named values."""
