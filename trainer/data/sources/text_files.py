"""Text files for language modelling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.base.paths import confine, confine_folder
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.text.language import language_splits, read_documents

BUILT_IN_TOKENIZERS = ("bytes", "characters")


def text_splits(
    section: SplitSection,
    code_root: Path,
    *,
    path: str | Sequence[str],
    tokenizer: str = "bytes",
    block_size: int = 128,
    split_by: str | None = None,
    separator: str | None = None,
) -> Splits:
    """Read text files into splits of token blocks.

    Args:
        path: a file, several, or a pattern (`docs/*.md`), under the code root.
        tokenizer: bytes, characters, or a folder with a tokenizer of the Transformers library.
        block_size: tokens that a model sees at once.
        split_by: document (each goes to one split) or position (each document's beginning is for training, its end
            for the test); found from the number of documents where it is left out.
        separator: what stands between two documents of one file; a file is one document without it.

    Raises:
        ConfigurationError: a path or a tokenizer that is not there.
        DataError: no readable text, or too little for the split.
    """
    files = _files(path, code_root)
    return language_splits(
        read_documents(files, separator),
        section,
        source="text",
        tokenizer=find_tokenizer(tokenizer, code_root),
        block_size=block_size,
        split_by=split_by,
        files=files,
    )


def find_tokenizer(tokenizer: str, code_root: Path) -> str | Path:
    """Return a built-in tokenizer's name, or the folder of another. Raises ConfigurationError for neither."""
    if tokenizer in BUILT_IN_TOKENIZERS:
        return tokenizer
    if near := near_matches(tokenizer, BUILT_IN_TOKENIZERS):
        raise ConfigurationError(
            f"`data.args.tokenizer` = {tokenizer!r} is no built-in tokenizer.{near}",
            remedy=f"Built in: {', '.join(BUILT_IN_TOKENIZERS)}; anything else is a folder under code_root.",
        )
    return confine_folder(tokenizer, code_root, key="data.args.tokenizer")


def _files(path: str | Sequence[str], code_root: Path) -> list[Path]:
    """Return the files of a path, several or patterns, each once, in the order of their names within a pattern."""
    root = code_root.resolve()
    found: list[Path] = []
    for given in [path] if isinstance(path, str) else list(path):
        names = [str(given)]
        if any(sign in str(given) for sign in "*?[") and not Path(given).is_absolute():
            names = sorted(each.relative_to(root).as_posix() for each in root.glob(str(given)) if each.is_file())
            if not names:
                raise ConfigurationError(
                    f"`data.args.path` = {given!r}: the pattern matches no file under {code_root}.",
                    remedy="Patterns are relative to code_root; `**/` stands for any folders.",
                )
        found += [confine(name, code_root, key="data.args.path") for name in names]
    return list(dict.fromkeys(found))
