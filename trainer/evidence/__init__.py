"""Evidence that a worker measures and records of a run: environment, code, data, and resolved settings."""
