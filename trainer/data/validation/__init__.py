"""Validation of data: families of checks, the pass over the rows, and the report."""
