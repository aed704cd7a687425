"""The user's own code: found, confined, imported, called, and told apart from ours when it fails."""
