"""Seeds, deterministic settings, their probes, and the record of the environment (REPRO-1 to REPRO-5)."""
