"""The training configuration: schema, reading, changing. Free of torch, so that the server may import it."""

from trainwright.trainer.config.merging import merge_changes
from trainwright.trainer.config.reading import (
    apply_changes,
    config_digest,
    dump_yaml,
    flatten,
    in_words,
    load_yaml,
    mended_call,
    parse_config,
    parse_dotted_key,
)
from trainwright.trainer.config.schema import DataSection, SelectionSection, TrainingConfig
from trainwright.trainer.config.search import Range, SearchSection
from trainwright.trainer.config.section import Entry, Section

__all__ = [
    "apply_changes",
    "config_digest",
    "dump_yaml",
    "flatten",
    "in_words",
    "load_yaml",
    "mended_call",
    "merge_changes",
    "parse_config",
    "parse_dotted_key",
    "DataSection",
    "Entry",
    "Range",
    "SearchSection",
    "Section",
    "SelectionSection",
    "TrainingConfig",
]
