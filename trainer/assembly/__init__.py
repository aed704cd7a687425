"""Assembly of everything a run works with, from its configuration: data, model, objective, metrics."""
