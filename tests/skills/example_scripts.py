"""Scripts of skills/example-projects, loaded from their files as a user runs them."""

from __future__ import annotations

import importlib.util
import io
import sys
import tarfile
from typing import Any

from trainwright.tools.documents import SKILL

EXAMPLES = (SKILL.parent / "example-projects").resolve()


def script(example: str, name: str) -> Any:
    """Return an example's script as a module, new with each call."""
    spec = importlib.util.spec_from_file_location(f"example_{example}_{name}", EXAMPLES / example / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


def archive_of(files: dict[str, bytes | str]) -> bytes:
    """Return a .tar.gz with these files by their paths."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()
