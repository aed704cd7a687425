"""Names are names of something: symbols in tests and benchmarks, calls and documents in errors, shapes in docstrings.

So a moved module is found before any test of it runs, and an agent is never sent to a call that does not exist.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import LONGEST_FIRST
from tests.house.sources import ROOT, named, nodes_of, parsed, sources

import trainwright
from trainwright.server.surface import TOOLS

ALONE = ("gpu_kit/unpack.py",)
"""Files that run where the package is not there yet."""
FILES = [path for folder in ("benchmarks", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
MODULE = re.compile(rf"\b{trainwright.__name__}\.(?:server|tools|trainer)\b")
SKILL = ROOT / "skills" / "ml-trainer"
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}
REMEDIES = ("remedy", "why")
NOT_TOOLS = {"launch_environment", "train_step", "validation_step"}
TENSOR = re.compile(r"\bTensor\b")
_SIZE = r"(?:\.\.\.|\*?\w+(?: [-+*/] \w+| of \w+(?: \w+)*)?)"
SHAPE = re.compile(rf"(?<!\w)\({_SIZE}(?:,|(?:, {_SIZE})+)\)|\bscalars?\b|\b(?:any|same) shape\b")
"""`(batch, classes)`, `(samples,)`, `(stop - start,)`, `(2B, ...)`; not a call, and not a remark in parentheses."""
SOURCE = re.compile(r"arXiv|doi|http|torch's|\b[A-Z][\w'-]+[\w ,.]* (?:19|20)\d\d\b")
"""`arXiv:1711.05101`, `torch's LBFGS`, `Loshchilov and Hutter 2019`."""
WITHOUT_SOURCE = {"own", "SupervisedSection"}
"""The user's own optimizer, and the plain loss of model and data, which is the loss's source."""


def test_no_string_names_a_module_of_the_package():
    """`worker.__name__`, `function.__module__`, and for the code of another process `function_text.body_of`."""
    found = [
        f"{named(path)}:{node.lineno}: {node.value[:60]!r}"
        for path in FILES
        if not path.as_posix().endswith(ALONE)
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and MODULE.search(node.value)
    ]
    assert not found


def test_everything_that_is_imported_from_the_package_is_there():
    """Imports inside functions too, some of which run in other processes, or by `make` alone."""
    missing = [
        f"{named(path)}:{line}: {module}.{name}"
        for path in FILES
        for line, module, name in _imported(path)
        if name not in _names(module)
    ]
    assert not missing


def test_everything_that_is_patched_is_there():
    """`patch.setattr(module, "name", ...)`, `module.name = ...`, and tuples that begin with a module and a name."""
    missing = [
        f"{named(path)}:{line}: {module}.{name}"
        for path in FILES
        for line, module, name in _patched(path)
        if name not in _names(module)
    ]
    assert not missing


def test_the_files_that_begin_first_are_there():
    assert not [name for name in LONGEST_FIRST if not list((ROOT / "tests").glob(f"**/{name}"))]


def _patched(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name wherever a file replaces what a module of the package holds."""
    imports = [node for node in nodes_of(path) if isinstance(node, ast.ImportFrom)]
    modules = {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    for node in nodes_of(path):
        match node:
            case (
                ast.Call(func=ast.Attribute(attr="setattr"), args=[ast.Name(id=place), ast.Constant(value=name), *_])
                | ast.Tuple(elts=[ast.Name(id=place), ast.Constant(value=str(name)), *_])
                | ast.Assign(targets=[ast.Attribute(value=ast.Name(id=place), attr=name)])
            ) if _names(modules.get(place, "")):
                yield node.lineno, modules[place], name


def _imported(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and name of every import from the package."""
    own = f"{trainwright.__name__}."
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(own):
            yield from ((node.lineno, str(node.module), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            split = [alias.name.rpartition(".") for alias in node.names if alias.name.startswith(own)]
            yield from ((node.lineno, module, name) for module, _, name in split)


@cache
def _names(module: str) -> frozenset[str]:
    """Return the names that stand in a module of the package, its own modules among them; nothing is imported."""
    if not f"{module}.".startswith(f"{trainwright.__name__}."):
        return frozenset()
    base = ROOT / "src" / Path(*module.split("."))
    file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    modules = {path.stem for path in base.glob("*") if path.suffix == ".py" or path.is_dir()}
    if not file.exists():
        return frozenset(modules)
    return frozenset(modules | set(_bound(file)))


def _bound(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.fixture(scope="module")
def nodes():
    """(place, node) of every keyword and call in the product's sources: each file is parsed once, when it is asked."""
    return [
        (f"{named(path)}:{node.lineno}", node)
        for path in sources()
        for node in nodes_of(path)
        if isinstance(node, ast.keyword | ast.Call)
    ]


@pytest.fixture(scope="module")
def texts(nodes):
    """Return a function: (place, text) of each literal given as one of the keywords; what is computed reads as `…`."""
    given = [(place, node) for place, node in nodes if isinstance(node, ast.keyword)]

    def of(*keywords):
        return [(place, text) for place, node in given if node.arg in keywords for text in _literals(node.value)]

    return of


def _literals(value):
    for part in ast.walk(value):
        if isinstance(part, ast.JoinedStr):
            yield "".join(_plain(piece) for piece in part.values)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def _plain(node):
    return node.value if isinstance(node, ast.Constant) else "…"


def _calls(text):
    """Return the source of every `tool(…)` in a text, up to its closing bracket."""
    found = []
    for match in re.finditer(r"\b(" + "|".join(SCHEMAS) + r")\(", text):
        depth, end = 0, match.end() - 1
        for end in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        if depth == 0:
            found.append(text[match.start() : end + 1])
    return found


def _argument_names(call):
    """Return the argument names of a call; None when it is cut into pieces by an f-string and cannot be parsed."""
    try:
        node = ast.parse(re.sub(r"…", "0", call)).body[0].value
    except SyntaxError:
        return None
    positional = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
    return positional + [keyword.arg for keyword in node.keywords]


@pytest.mark.requirement("GATE-2")
def test_calls_in_remedies_take_real_arguments(texts):
    calls = [(place, call) for place, text in texts(*REMEDIES) for call in _calls(text)]
    assert len(calls) > 50, "the sources are read in another way than they are written"
    assert [found for place, call in calls if (found := _unknown_arguments(place, call))] == []


def _unknown_arguments(place, call):
    unknown = set(_argument_names(call) or ()) - set(SCHEMAS[call.split("(")[0]]["properties"])
    return f"{place}: {call} has no argument {sorted(unknown)}" if unknown else ""


@pytest.mark.requirement("GATE-2")
def test_remedies_name_no_tool_that_does_not_exist(texts):
    called = [
        (place, name)
        for place, text in texts(*REMEDIES)
        for name in re.findall(r"(?<![.\w])([a-z]+(?:_[a-z]+)+)\(", text)
    ]
    assert len(called) > 50, "the sources are read in another way than they are written"
    assert [(place, name) for place, name in called if name not in {*SCHEMAS, *NOT_TOOLS}] == []


@pytest.mark.requirement("MCP-5")
def test_next_calls_name_real_tools_and_arguments(nodes):
    """Where the tool is computed, the tests of that place look at its value."""
    found = [
        (place, {keyword.arg: keyword.value for keyword in node.keywords})
        for place, node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "NextCall"
    ]
    named = [(place, given) for place, given in found if isinstance(given.get("tool"), ast.Constant)]
    assert len(named) > 20, "the sources are read in another way than they are written"
    assert [wrong for place, given in named if (wrong := _wrong_next(place, given))] == []


def _wrong_next(place, given):
    tool, arguments = given["tool"].value, given.get("arguments")
    if tool not in SCHEMAS:
        return f"{place}: there is no tool {tool!r}"
    keys = arguments.keys if isinstance(arguments, ast.Dict) else []
    unknown = {key.value for key in keys if isinstance(key, ast.Constant)} - set(SCHEMAS[tool]["properties"])
    return f"{place}: {tool} has no argument {sorted(unknown)}" if unknown else ""


@pytest.mark.requirement("GATE-2")
def test_documents_that_errors_name_exist(texts):
    named = [(place, text) for place, text in texts("document") if text.endswith((".md", ".yaml")) and "…" not in text]
    assert named
    assert [(place, document) for place, document in named if not (SKILL / document).is_file()] == []


def test_the_shapes_of_tensors_are_in_the_docstring_of_every_public_function() -> None:
    assert not [
        f"{named(path)}:{function.lineno} {function.name}"
        for path in sources("trainer")
        for function in _public(parsed(path))
        if _has_tensors(function) and not SHAPE.search(ast.get_docstring(function) or "")
    ]


@pytest.mark.parametrize("shape", ["(batch, classes)", "(N, C, H, W)", "(rows,)", "(stop - start,)", "a scalar"])
def test_a_shape_is_found(shape: str) -> None:
    assert SHAPE.search(f"Return logits, {shape}, of the batch.")


@pytest.mark.parametrize("words", ["(one per class)", "loss(output, target)", "(here, as in torch)", "(batch)"])
def test_other_parentheses_are_no_shape(words: str) -> None:
    assert not SHAPE.search(f"Return the weights {words}.")


def test_every_algorithm_names_its_paper_or_page() -> None:
    assert not [name for name, documents in _algorithms() if not any(map(SOURCE.search, documents))]


def _public(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            yield child


def _has_tensors(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether an annotation names a tensor. Tensors by name (a state dict) have as many shapes as names."""
    arguments = [node.annotation for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    return any(TENSOR.search(_but_by_name(node)) for node in (*arguments, function.returns) if node is not None)


def _but_by_name(annotation: ast.expr) -> str:
    text = ast.unparse(annotation)
    for node in ast.walk(annotation):
        if isinstance(node, ast.Subscript) and ast.unparse(node).startswith(("dict[str, ", "Mapping[str, ")):
            text = text.replace(ast.unparse(node), "")
    return text


def _algorithms() -> Iterator[tuple[str, list[str]]]:
    """Yield every registered algorithm with the docstrings that may say where it comes from."""
    from trainwright.trainer.data import curriculum
    from trainwright.trainer.data.sections import DIFFICULTIES
    from trainwright.trainer.losses import LOSSES
    from trainwright.trainer.metrics import BUILT_IN as METRICS
    from trainwright.trainer.models import MODELS
    from trainwright.trainer.models.adapters import ADAPTERS
    from trainwright.trainer.objectives.mixing_sections import MIXINGS
    from trainwright.trainer.objectives.sections import OBJECTIVES
    from trainwright.trainer.optimization.optimizers import OPTIMIZERS
    from trainwright.trainer.optimization.schedules import SCHEDULES
    from trainwright.trainer.optimization.weight_averaging import EmaSection, SwaSection
    from trainwright.trainer.strategies.parallel import Ddp
    from trainwright.trainer.strategies.sharded import Fsdp2
    from trainwright.trainer.strategies.zero import DeepSpeed

    forms = (*OBJECTIVES, *MIXINGS, EmaSection, SwaSection, *ADAPTERS.values(), Ddp, Fsdp2, DeepSpeed)
    made: list[tuple[str, Any]] = [*OPTIMIZERS.items(), *SCHEDULES.items(), *((form.__name__, form) for form in forms)]
    made += [(name, form if form.of_library else form()._network()) for name, form in MODELS.items()]
    made += [(name, getattr(curriculum, function)) for name, function in DIFFICULTIES.items()]
    made += [(name, metric.of_loss or metric.compute) for name, metric in METRICS.items()]
    made += LOSSES.items()
    for name, what in made:
        if name not in WITHOUT_SOURCE:
            documents = [what.__doc__, sys.modules[what.__module__].__doc__]
            documents += [what().function().__doc__] if what in LOSSES.values() else []
            yield f"{what.__module__}: {name}", [document or "" for document in documents]
