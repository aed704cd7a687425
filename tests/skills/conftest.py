"""Real runs for the skills' templates, as the engine's tests make them."""

from tests.trainer.conftest import make_run, open_session, work

__all__ = ["make_run", "open_session", "work"]
