"""Built-in data sources. Each returns `Loaded`, samples not yet split, or `Splits` where splitting comes first."""

from trainwright.trainer.data.sources.arrays import load_npz
from trainwright.trainer.data.sources.images import load_images
from trainwright.trainer.data.sources.tabular import load_table
from trainwright.trainer.data.sources.toy import load_toy
from trainwright.trainer.data.splits import Loaded

__all__ = ["Loaded", "load_images", "load_npz", "load_table", "load_toy"]
