"""Supervision of the worker: heartbeat, limits, signals, use of the machine."""
