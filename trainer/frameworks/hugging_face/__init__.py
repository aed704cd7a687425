"""The Trainer of transformers, and those that inherit from it (TRL's, the user's own)."""
