"""Base of everything else: errors, canonical JSON, seeding, paths. Imports nothing of the engine."""
