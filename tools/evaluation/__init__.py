"""Evaluation of exported programs by a clean process: without user code, on the rows that planning fixed (GATE-6)."""

from trainwright.tools.evaluation.comparison import differences_between
from trainwright.tools.evaluation.evaluate import Others, compared_with, evaluate_program
from trainwright.tools.evaluation.process import run_clean_room
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.evaluation.under_way import STAGE, Attempt, evaluated_soon, forget, is_under_way
