"""Probe of a run's first steps on the real model and data: where time goes, and suitable rates and batch sizes."""
