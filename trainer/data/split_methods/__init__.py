"""Ways to split by name, each a file: a pure function of what is known of the rows."""

from __future__ import annotations

from collections.abc import Callable

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.at_random import at_random
from trainwright.trainer.data.split_methods.by_group import by_group
from trainwright.trainer.data.split_methods.by_hash import by_hash
from trainwright.trainer.data.split_methods.by_scaffold import by_scaffold
from trainwright.trainer.data.split_methods.by_time import by_time
from trainwright.trainer.data.split_methods.given import given
from trainwright.trainer.data.split_methods.rows import Codes, Rows

METHODS: dict[str, Callable[[Rows, SplitSection], Codes]] = {
    "random": at_random,
    "group": by_group,
    "time": by_time,
    "hash": by_hash,
    "scaffold": by_scaffold,
    "given": given,
}
"""The names are those of `data.split.by`; a new way is one line here and one name there."""
