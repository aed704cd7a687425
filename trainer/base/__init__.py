"""What everything else stands on: errors, canonical JSON, seeding, paths. Imports nothing of the engine's."""
