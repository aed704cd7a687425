"""User code: found, confined, imported, called, and distinguished from ours when it fails."""
