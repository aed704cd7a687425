"""Trying an alert's fixes: short runs with and without each, in a detached process, and what they showed."""

from trainwright.tools.cures.start import ensure_tried, try_fixes
