"""The engine's worlds, as the tests of its parts use them: run directories, forked workers, groups of two."""

from tests.trainer.conftest import begin, make_run, open_session, recorded, started, take_steps, work
from tests.trainer.strategies.conftest import group_work, iris

__all__ = ["begin", "group_work", "iris", "make_run", "open_session", "recorded", "started", "take_steps", "work"]
