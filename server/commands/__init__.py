"""Commands of the terminal, for people rather than agents."""
