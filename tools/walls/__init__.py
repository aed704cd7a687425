"""Walls round an agent's command line: what it may see, write, reach and signal. Starts fast: imports nothing heavy."""
