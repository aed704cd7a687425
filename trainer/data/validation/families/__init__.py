"""Families of checks, one a file."""
