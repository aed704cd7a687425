"""A look at a run's first steps on the real model and data: where time goes, which rate and which batch would do."""
