"""Tracking: each run's card, and its numbers in MLflow or Weights & Biases, fed by processes of their own."""

from trainwright.tools.tracking.card import RunCard, run_card
from trainwright.tools.tracking.process import catch_up, ensure_follower, follow_asked
from trainwright.tools.tracking.registry import TRACKERS
