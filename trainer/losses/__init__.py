"""Built-in losses by name, what each asks of outputs and targets, and what some measure on the train split first."""
