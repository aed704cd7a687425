"""Assembly of `predict.py`: the frame, one file for the kind of input, one for the kind of answer, the command line.

What reads raw inputs is the source of the modules that read them for training, so that both are one code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

PREDICT = "predict.py"
HERE = "trainwright.trainer.prediction"
DATES = "trainwright.trainer.base.iso_dates"
DATA = "trainwright.trainer.data"
TABLE, PICTURE, TEXT = f"{DATA}.table.transform", f"{DATA}.images.decoding", f"{DATA}.text.transform"
JOINED, TURNS = f"{DATA}.text.joined", f"{DATA}.text.turns"
TEXTS = (TEXT, f"{HERE}.fields", f"{HERE}.texts")


class Part(NamedTuple):
    """A kind of input or of answer."""

    kind: str
    """Its class."""
    modules: tuple[str, ...]
    needs: str = ""
    """Packages beside numpy."""
    example: str = ""
    """An argument, for the lines of use."""
    gives: str = ""
    """An answer, for the docstring of `predict`."""


INPUTS = {
    "table": Part("TableRows", (TABLE, f"{HERE}.tables"), example="rows.csv"),
    "picture": Part("PictureRows", (PICTURE, f"{HERE}.pictures"), "pillow", "picture.png"),
    "text": Part("TextRows", TEXTS, example='"some words"'),
    "words": Part("WordRows", (*TEXTS, JOINED, f"{HERE}.words"), example='"some words"'),
    "question": Part("QuestionRows", (*TEXTS, JOINED, f"{HERE}.questions"), example="questions.jsonl"),
    "choices": Part("ChoiceRows", (*TEXTS, JOINED, f"{HERE}.choices"), example="questions.jsonl"),
    "masked": Part("MaskedRows", (*TEXTS, f"{HERE}.masked"), example="texts.txt"),
    "source": Part("SourceRows", (*TEXTS, f"{HERE}.prompts", f"{HERE}.sequences"), example='"some words"'),
    "conversation": Part("ConversationRows", (*TEXTS, TURNS, f"{HERE}.conversations"), example='"some words"'),
    "series": Part("SeriesRows", (DATES, TABLE, f"{HERE}.tables", f"{HERE}.series"), example="rows.csv"),
    "prompt": Part("PromptRows", (TEXT, f"{HERE}.prompts"), example='"some words"'),
    "own": Part("OwnRows", (f"{HERE}.own",), example="INPUT"),
    "array": Part("ArrayRows", (f"{HERE}.arrays",), example="samples.npy"),
}
ANSWERS = {
    "classes": Part(
        "ClassAnswers",
        (f"{HERE}.classes",),
        gives="the likeliest class: {'label', 'probability', 'scores': {class: probability}}",
    ),
    "labels": Part(
        "LabelAnswers",
        (f"{HERE}.labels",),
        gives="the labels that hold: {'labels': [...], 'probabilities': {label: probability}}",
    ),
    "numbers": Part(
        "NumberAnswers",
        (f"{HERE}.numbers",),
        gives="{'value': number}, or {'values': {name: number}} of several, in the targets' units",
    ),
    "ranks": Part(
        "RankAnswers", (f"{HERE}.ranks",), gives="{'rank': place in its group, from 1, 'score': number} of each row"
    ),
    "forecast": Part(
        "ForecastAnswers",
        (f"{HERE}.forecasts",),
        gives="{'forecast': [{'step', time, target: number}, ...]}, a dict for each step of the horizon",
    ),
    "written": Part(
        "WrittenAnswers", (f"{HERE}.prompts",), gives="{'text', 'tokens', 'ended'}: what comes after the prompt"
    ),
    "rewritten": Part(
        "RewrittenAnswers", (f"{HERE}.prompts", f"{HERE}.sequences"), gives="{'text', 'tokens', 'ended'}"
    ),
    "tags": Part("TagAnswers", (f"{HERE}.words",), gives="{'words': [{'word', 'tag', 'probability'}], 'entities'}"),
    "span": Part(
        "SpanAnswers",
        (f"{HERE}.questions",),
        gives="{'answer', 'probability', 'from', 'to'}, characters of the context",
    ),
    "choice": Part(
        "ChoiceAnswers",
        (f"{HERE}.choices",),
        gives="{'choice', 'number', 'probability', 'probabilities'}, numbers from 0",
    ),
    "filled": Part(
        "FilledAnswers",
        (f"{HERE}.masked",),
        gives="{'text', 'words'}, of each mark the likeliest with their probabilities",
    ),
    "own": Part("OwnAnswers", (f"{HERE}.own",), gives="as the model's own `present` gives it"),
    "mask": Part(
        "MaskAnswers", (f"{HERE}.masks",), "pillow", gives="{'mask': file of the PNG, 'shares': {class: share}}"
    ),
}

PYTHON = '''
def predict(*inputs: Any, **options: Any) -> list[dict[str, Any]]:
    """Return the answers to some inputs, in order.

    Args:
        inputs: as on the command line: {takes}.
            A row may be a dict and rows a list of dicts, by column (frame.to_dict("records")); an array may be NumPy's.
        options: those of `python predict.py --help` that have a default.

    Returns: of each `{{"input": what names it, "answer": ..., "notes": what a reader should know}}`. The answer:
        {gives}.

    Raises WrongInputError, with what was wrong as its text and what to do as its `remedy`.
    """
    return predictions({rows}, {answers}, inputs, options)
'''.strip()
"""The function of predict.py for those who import it."""


def use_of(given: str) -> str:
    """Return the command that answers an input of a kind."""
    return f"python {PREDICT} {INPUTS[given].example}"


def assembled(given: str, answer: str, about: str) -> str:
    """Return the text of predict.py.

    Args:
        given: kind of input, of INPUTS.
        answer: kind of answer, of ANSWERS.
        about: what it says of itself, for the head and the help.
    """
    rows, answers = INPUTS[given], ANSWERS[answer]
    names = [f"{HERE}.frame", *rows.modules, *answers.modules, f"{HERE}.command"]
    parts = [_parsed(name) for name in dict.fromkeys(names)]
    function = PYTHON.format(
        rows=rows.kind,
        answers=answers.kind,
        gives=answers.gives,
        takes=getattr(import_module(rows.modules[-1]), rows.kind).takes,
    )
    tail = f'    sys.exit(main({rows.kind}, {answers.kind}, __doc__ or "", sys.argv[1:]))'
    head = f'"""{about}"""\n\nfrom __future__ import annotations\n\n{_imports(parts)}'
    return f'{head}\n\n{_bodies(parts)}\n\n\n{function}\n\n\nif __name__ == "__main__":\n{tail}\n'


def loading(kind: str, how: dict[str, Any], about: str, needs: str) -> str:
    """Return the text of load.py.

    Args:
        kind: name of a function of loading.py.
        how: what it is given.
        about: what it says of itself, for the head.
        needs: the packages to install.
    """
    missing = f"{{problem}}. load.py needs {needs}: pip install {needs}"
    source = _parsed(f"{HERE}.loading")
    (function,) = (node for node in source.tree.body if isinstance(node, ast.FunctionDef) and node.name == kind)
    return (
        f'"""{about}"""\n\nfrom __future__ import annotations\n\n{_imports([source])}\n\nHOW = {how!r}\n\n\n'
        f"{ast.get_source_segment(source.text, function)}\n\n\n"
        "def load(folder: str | Path = Path(__file__).parent) -> Any:\n"
        '    """Return the model. Raises ImportError, which says what to install, where a package is missing."""\n'
        f"    try:\n        return {kind}(HOW, Path(folder))\n"
        f'    except ImportError as problem:\n        raise ImportError(f"{missing}") from None\n\n\n'
        'if __name__ == "__main__":\n    try:\n        sys.stdout.write(f"{load()}\\n")\n'
        "    except ImportError as problem:\n        sys.exit(str(problem))\n"
    )


def alone(module: str) -> str:
    """Return the text of a module of ours with that of all modules of ours that it imports, in one."""
    parts = [_parsed(name) for name in reversed(_with_ours(module))]
    about = ast.get_docstring(parts[-1].tree)
    return f'"""{about}"""\n\nfrom __future__ import annotations\n\n{_imports(parts)}\n\n{_bodies(parts)}\n'


def _with_ours(module: str) -> list[str]:
    found = [module]
    for name in found:
        for node in _parsed(name).tree.body:
            ours = node.module if isinstance(node, ast.ImportFrom) else None
            if ours is not None and ours.startswith("trainwright") and ours not in found:
                found.append(ours)
    return found


class _Parsed(NamedTuple):
    """A module of ours."""

    text: str
    tree: ast.Module


@lru_cache(maxsize=64)
def _parsed(module: str) -> _Parsed:
    spec = find_spec(module)
    assert spec is not None, module  # noqa: S101 - it is ours
    assert spec.origin is not None, module  # noqa: S101 - it is a file
    text = Path(spec.origin).read_text(encoding="utf-8")
    return _Parsed(text, ast.parse(text))


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _imports(parts: Iterable[_Parsed]) -> str:
    """Return the imports of all modules, each once; none of ours."""
    lines: set[str] = set()
    named: dict[str, set[str]] = {}
    for node in (node for part in parts for node in part.tree.body):
        if isinstance(node, ast.Import):
            lines |= {f"import {ast.unparse(alias)}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith(("trainwright", "__future__")):
            named.setdefault(node.module or "", set()).update(map(ast.unparse, node.names))
    found = sorted(lines) + [
        f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(named.items())
    ]
    return "\n".join(found)


def _bodies(parts: Iterable[_Parsed]) -> str:
    return "\n\n\n".join(_body(*part) for part in parts)


def _body(text: str, tree: ast.Module) -> str:
    """Return a module's text without its docstring, its imports and what stands there for typing alone."""
    left_out: set[int] = set()
    for place, node in enumerate(tree.body):
        is_docstring = place == 0 and isinstance(node, ast.Expr)
        if is_docstring or _is_import(node) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return "\n".join(line for n, line in enumerate(text.splitlines(), 1) if n not in left_out).strip()
