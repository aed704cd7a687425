"""Experiments: an idea, a state of code and configuration, and a verdict by a rule that was fixed beforehand."""
