"""Estimates before training: memory by tracing the engine's own step without allocating it, time, and money."""
