"""Catalogue of the built-in parts: their names, and the sections that check their arguments."""
