"""Observers of the loop: one file each, with the moments of `Observer`."""
