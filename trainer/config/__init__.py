"""The training configuration: schema, reading, changing. Free of torch, so that the server may import it."""

from trainwright.trainer.config.merging import MergedConfig, merge_changes, parse_config
from trainwright.trainer.config.plain_values import (
    apply_changes,
    config_digest,
    dump_yaml,
    flatten,
    leaves,
    load_yaml,
    split_key,
)
from trainwright.trainer.config.schema import TrainingConfig
from trainwright.trainer.config.search import Range, SearchSection
