"""Cheats: what an agent could try, played on a real workspace, and what came of each (GATE-5)."""
