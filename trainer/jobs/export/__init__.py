"""Export of a run's best checkpoint to files that deployment needs, checked against the model."""
