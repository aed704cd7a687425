"""Estimates of memory and work, asked of a process that traces the configuration; nothing of them is evidence."""

from trainwright.tools.estimation.asking import estimate
