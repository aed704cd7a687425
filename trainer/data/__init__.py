"""Samples: where they come from, how they are split, in which order they are fetched, what they hash to."""
