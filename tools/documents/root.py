"""Root of the documents, in a checkout and in an installed package alike."""

from pathlib import Path

SKILL = Path(__file__).resolve().parents[2] / "skills" / "ml-trainer"
