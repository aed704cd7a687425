"""The training configuration: schema, reading, changing. Free of torch, so that the server may import it."""

from trainwright.trainer.base.section import Entry, Section
from trainwright.trainer.config.overlay import flatten, split_key
from trainwright.trainer.config.reading import (
    apply_changes,
    config_digest,
    dump_yaml,
    load_yaml,
)
from trainwright.trainer.config.schema import DataSection, SelectionSection, TrainingConfig
from trainwright.trainer.config.search import Range, SearchSection
from trainwright.trainer.config.settling import Settled, parse_config, settle

__all__ = [
    "apply_changes",
    "config_digest",
    "dump_yaml",
    "flatten",
    "load_yaml",
    "parse_config",
    "settle",
    "split_key",
    "DataSection",
    "Entry",
    "Range",
    "SearchSection",
    "Section",
    "SelectionSection",
    "Settled",
    "TrainingConfig",
]
