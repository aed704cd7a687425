"""Jobs of a worker: train, probe, export, compare with a replay."""
