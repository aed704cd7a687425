"""Code that ran: the user's own files, and the engine's."""

from __future__ import annotations

from pathlib import Path

import trainwright
from trainwright.trainer.base.canonical import digest_file, digest_json
from trainwright.trainer.base.paths import ENGINE
from trainwright.trainer.run.evidence import Code
from trainwright.trainer.user_code.import_record import meanings_of, own_files, sources_of


def code_evidence(code_root: Path) -> Code:
    """Return digests of the user's imported files, and of the engine."""
    files = own_files(code_root)
    meanings = meanings_of(sources_of(files, code_root))
    return Code(
        files=files,
        digest=digest_json(files),
        meanings=meanings,
        meaning=digest_json(meanings),
        engine_version=trainwright.__version__,
        engine_digest=engine_digest(ENGINE),
    )


def engine_digest(engine: Path) -> str:
    """Return the digest of all of the engine's own files."""
    files = {path.relative_to(engine).as_posix(): digest_file(path) for path in sorted(engine.rglob("*.py"))}
    return digest_json(files)
