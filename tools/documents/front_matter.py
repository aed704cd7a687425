"""Documents: where they lie, and Markdown with YAML front matter that is checked against a pydantic model."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from trainwright.trainer.base.errors import ConfigurationError, NotFoundError
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.plain_yaml import PlainLoader

SKILL = Path(__file__).resolve().parents[2] / "skills" / "ml-trainer"


Model = TypeVar("Model", bound=BaseModel)
FENCE = "---\n"


def read_named(path: Path, model: type[Model]) -> Model:
    """Return the front matter of a document that is named after its `id`; read again only when the file changes.

    Raises:
        NotFoundError, ConfigurationError: see `read_document`; or file and id do not agree.
    """
    document = while_unchanged(("document", path, model), [str(path)], lambda: read_document(path, model)[0])
    if (name := getattr(document, "id", "")) != path.stem:
        raise ConfigurationError(
            f"{path.name} has the id {name!r}; file and id must agree.",
            remedy=f"Rename the file to {name}.md or correct the id.",
        )
    return document


def read_document(path: Path, model: type[Model]) -> tuple[Model, str]:
    """Return the document's front matter as `model`, and its body.

    Raises:
        NotFoundError: there is no such file.
        ConfigurationError: the front matter is missing or does not fit the model.
    """
    remedy = f"Correct {path.name}, or reinstall Trainwright: an enforced document must be whole."
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise NotFoundError(f"The document {path.name} cannot be read: {error.strerror}.", remedy=remedy) from error
    _, fence, rest = text.partition(FENCE)
    front, fence_end, body = rest.partition("\n" + FENCE)
    if not text.startswith(FENCE) or not fence or not fence_end:
        raise ConfigurationError(f"{path.name} has no front matter between two lines of `---`.", remedy=remedy)
    try:
        values = yaml.load(front, Loader=PlainLoader)  # noqa: S506 - a subclass of SafeLoader
        return model.model_validate(values), body
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigurationError(
            f"The front matter of {path.name} is not valid YAML: {reason}", remedy=remedy
        ) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise ConfigurationError(f"The front matter of {path.name} is not valid: {problems}.", remedy=remedy) from error
