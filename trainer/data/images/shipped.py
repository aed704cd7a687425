"""Decoding as it is shipped with a final model: the file that decoded for training, and its options."""

from __future__ import annotations

import json
from pathlib import Path

from trainwright.trainer.data.images import decoding
from trainwright.trainer.data.images.samples import ImageSamples

TRANSFORM, SCHEMA = "transform.py", "schema.json"


def ship_decoding(samples: ImageSamples, folder: Path) -> None:
    """Write transform.py and schema.json, which turn picture files into the program's inputs, into a folder."""
    height, width = samples.pictures.size
    options = {"size": [height, width], "channels": samples.pictures.channels, "dtype": "uint8"}
    (folder / TRANSFORM).write_bytes(Path(decoding.__file__).read_bytes())
    (folder / SCHEMA).write_text(json.dumps({"pictures": options}, indent=2), encoding="utf-8")
