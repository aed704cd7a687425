"""A sealed run, as evaluations read it: nothing counts that is not as it was sealed."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Part


class Sealed(NamedTuple):
    """A run's directory with the digests of its files, as sealed or about to be."""

    directory: RunDirectory
    digests: dict[str, str]

    def part(self, kind: type[Part]) -> Any:
        """Return one part of the evidence, if its file is as sealed; else an empty one. Raises IntegrityError."""
        name = f"artifacts/{kind.file}.json"
        path = self.directory.path / name
        is_same = name in self.digests and path.is_file() and digest_file(path) == self.digests[name]
        return self.directory.part(kind) if is_same else kind()
