"""Hand-over of a project from one agent to another: a file with facts from the ledger, checked by its reader."""

from trainwright.tools.handover.checking import HandOverCheck, check_handover, handover_line
from trainwright.tools.handover.document import FILE, ROLES, HandOver, Words, read_words
from trainwright.tools.handover.facts import HandOverView, hand_over

__all__ = [
    "FILE",
    "ROLES",
    "HandOver",
    "HandOverCheck",
    "HandOverView",
    "Words",
    "check_handover",
    "hand_over",
    "handover_line",
    "read_words",
]
