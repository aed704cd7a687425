"""What code means, apart from how it is written: comments, docstrings and formatting leave its digest unchanged."""

from __future__ import annotations

import ast
import re
import warnings

from trainwright.trainer.canonical import digest_bytes

READS_ITSELF = re.compile(rb"__doc__|getdoc|docopt|getsource|getcomments|linecache|tokenize")
"""Where code reads its own text, comments and docstrings are part of what it does."""


class _Unspoken(ast.NodeTransformer):
    """Removes docstrings, and other texts that stand as statements of their own."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def meaning_of(source: bytes) -> str:
    """Return the digest of a Python file's meaning; of its bytes, where it is no Python that can be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's source: Python has said it when it was imported
            tree = _Unspoken().visit(ast.parse(source))
        return digest_bytes(ast.dump(tree).encode("utf-8", "surrogatepass"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return digest_bytes(source)


def meanings_of(sources: dict[str, bytes]) -> dict[str, str]:
    """Return each file's digest of meaning. Where any of the files reads such texts, the bytes are the meaning."""
    read = digest_bytes if any(READS_ITSELF.search(source) for source in sources.values()) else meaning_of
    return {name: read(source) for name, source in sources.items()}
