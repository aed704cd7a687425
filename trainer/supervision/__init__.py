"""Watching over the worker: heartbeat, limits, signals, what the machine does."""
