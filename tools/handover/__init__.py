"""Hand-over of a project from one agent to another: a file with facts from the ledger, checked by its reader."""

from trainwright.tools.handover.checking import check_handover, handover_line
from trainwright.tools.handover.document import FILE, ROLES, read_words
from trainwright.tools.handover.facts import HandOverView, hand_over
