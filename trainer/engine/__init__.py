"""Training loop and its parts: session, step, evaluation, observers."""
