"""Figures of runs as PNG, one kind a file: curves, layers, machine, predictions, probes. Drawn from records alone."""
