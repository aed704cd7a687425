"""The cases, one module a family."""
