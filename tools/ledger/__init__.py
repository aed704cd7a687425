"""The append-only, hash-chained record of every decision (GATE-3)."""

from trainwright.tools.ledger.chain import append, broken_links, entries
from trainwright.tools.ledger.jsonl_mirror import copy_all_forward, cut_off
from trainwright.tools.ledger.projection import ProjectFacts
from trainwright.tools.ledger.rows import record
from trainwright.tools.ledger.seals import Inspection, Look, digests_to_seal, rows_problem, seal_differences
from trainwright.tools.ledger.summaries import summary_of, summary_problem
