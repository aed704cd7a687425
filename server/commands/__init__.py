"""Commands of the terminal: what a person, not an agent, asks of a workspace."""
