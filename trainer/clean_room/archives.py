"""Archives of torch.export (.pt2), written anew from the parts that run nothing when they are loaded.

`torch.export.load` trusts its file: it unpickles objects (also through `torch.load(weights_only=False)`), evaluates the
text of symbolic sizes with sympy, executes the text of guards, loads compiled libraries, and an operator's name reaches
any attribute of torch (`torch.os.system`). A program comes from a process that ran the user's code. So the archive is
read here as a plain zip file of JSON and of numbers; what is not in the lists below is refused; guards are dropped; and
torch gets a new archive of what was read, which leaves nothing to two readings of one zip file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .rows import RefusalError

PARTS = re.compile(
    r"archive_format|archive_version|byteorder|\.data/\w+|models/model\.json|data/sample_inputs/model\.pt"
    r"|data/weights/(?:weight_\d+|model_weights_config\.json)"
    r"|data/constants/(?:tensor_\d+|model_constants_config\.json)"
)
"""Of one program, its weights and constants as bytes; not: pickled objects, compiled libraries, further files."""
OPERATORS = re.compile(
    r"torch\.ops\.(?:aten|prims|higher_order)\.(?!from_file)(?:_?[A-Za-z]\w*|__(?:and|or|xor|lshift|rshift)__)(?:\.[A-Za-z]\w*)?"
    r"|torch\._?sym_\w+|math\.[a-z]\w*"
    r"|_operator\.(?:getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_|xor)"
)
SIZE_TOKEN = re.compile(
    r"'[A-Za-z]\w*'|'-?\d+(?:\.\d+)?(?:e[+-]?\d+)?'|[A-Z]\w*|\d+(?:\.\d+)?(?:e[+-]?\d+)?|[\s(),=+*/%<>&|~-]"
    r"|(?:positive|negative|nonnegative|nonpositive|integer|real|zero|finite|precision|true|false|oo|int_oo|zoo|nan"
    r"|ceiling|floor|s\d+|u\d+)\b"
)
"""A symbolic size is text such as Mul(Integer(2), Symbol('s77', positive=True, integer=True))."""
CONTAINERS = {None, "builtins.tuple", "builtins.list", "builtins.dict"}
REMEDY = "Export the model as ONNX: let it use operations that ONNX has, of torch itself."


def rewritten(path: Path, content: bytes) -> io.BytesIO:
    """Return the archive of these parts alone. Raises RefusalError for whatever could run code when it is loaded.

    Args:
        path: of the archive, for messages.
        content: its bytes.
    """
    again = io.BytesIO()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as given, zipfile.ZipFile(again, "w", zipfile.ZIP_STORED) as written:
            names = [name for name in given.namelist() if not name.endswith("/")]
            roots = {name.partition("/")[0] for name in names}
            if len(set(names)) != len(names) or len(roots) != 1:
                raise _refusal(path, "its parts do not have one name each below one folder")
            for name in names:
                written.writestr(name, _part(path, name.partition("/")[2], given.read(name)))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, RecursionError) as error:
        raise _refusal(path, f"it cannot be read ({str(error)[:80]})") from error
    again.seek(0)
    return again


def _part(path: Path, name: str, content: bytes) -> bytes:
    if not PARTS.fullmatch(name):
        raise _refusal(path, f"it has a part {name[:80]!r}")
    if not name.endswith(".json"):
        return content
    parsed = json.loads(content)
    for key, value in _pairs(parsed):
        if why := _unsafe(key, value):
            raise _refusal(path, why)
    if name == "models/model.json":
        parsed["guards_code"] = []  # text that torch would execute
    return json.dumps(parsed).encode()


def _unsafe(key: str, value: Any) -> str | None:
    """Return why a value of the archive's JSON may run code; None where it cannot."""
    if key == "use_pickle" and value:
        return "it has pickled tensors"
    if key in {"target", "as_operator"} and isinstance(value, str) and not OPERATORS.fullmatch(value):
        return f"it calls {value[:80]!r}"
    if key == "expr_str" and not _is_size(str(value)):
        return f"it has a size {str(value)[:80]!r}"
    if key in {"in_spec", "out_spec"} and isinstance(value, str) and value:
        return _unsafe_containers(value)
    return None


def _unsafe_containers(text: str) -> str | None:
    kinds = {str(value) for key, value in _pairs(json.loads(text)) if key == "type" and value not in CONTAINERS}
    if kinds or "__enum__" in text:
        return f"its inputs or outputs are {', '.join(sorted(kinds)) or 'enumerations'}"[:120]
    return None


def _is_size(text: str) -> bool:
    place = 0
    while place < len(text):
        token = SIZE_TOKEN.match(text, place)
        if token is None:
            return False
        place = token.end()
    return "__" not in text


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of the JSON value with what it holds."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield key, held
            yield from _pairs(held)
    elif isinstance(value, list):
        for held in value:
            yield from _pairs(held)


def _refusal(path: Path, why: str) -> RefusalError:
    return RefusalError(f"{path.name} is not loaded: {why}, which could run code.", REMEDY)
