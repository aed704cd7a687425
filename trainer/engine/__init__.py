"""The training loop and what it works with: session, step, evaluation, observers."""
