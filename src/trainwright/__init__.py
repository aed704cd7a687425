"""Trainwright: an MCP server that trains real models under gates it enforces from its own measurements."""

__version__ = "0.1.0"
