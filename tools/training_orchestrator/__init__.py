"""Runs in detached workers: starting them, reading their records, stopping and resuming them."""

from trainwright.tools.training_orchestrator.abandoned import put_back_all, remove_abandoned
from trainwright.tools.training_orchestrator.follow import followed_next, refresh_project
from trainwright.tools.training_orchestrator.launch import replay_run, start_run
from trainwright.tools.training_orchestrator.resume import resume_run
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.views import stop_and_follow, stop_run
from trainwright.tools.training_orchestrator.wait import refresh_run, wait_for_run
