"""From a configuration to everything a run works with: data, model, objective, metrics."""
