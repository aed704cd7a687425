"""Catalogue of the built-in parts: their names, and the sections that their arguments are held to."""
