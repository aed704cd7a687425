"""Packages that an example needs beyond the base install: which are missing, and the command that installs them."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from trainwright.trainer.base.errors import NotFoundError

if TYPE_CHECKING:
    from trainwright.tools.examples.catalogue import Example, Package

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def missing_packages(example: Example) -> list[Package]:
    """Return the example's packages that are not installed in this environment."""
    return [package for package in example.packages if not _is_installed(package.requirement)]


def require_packages(example: Example) -> None:
    """Raise NotFoundError with the command to install them where packages are missing."""
    missing = missing_packages(example)
    if missing:
        wanted = " ".join(f"'{package.requirement}'" for package in missing)
        raise NotFoundError(
            f"The example {example.name} needs {', '.join(package.requirement for package in missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed; nothing was copied.",
            remedy=f"pip install {wanted}, and make the same call again.",
            details={"missing": [package.requirement for package in missing]},
        )


def _is_installed(requirement: str) -> bool:
    found = NAME.match(requirement)
    try:
        return found is not None and bool(distribution(found[0]))
    except PackageNotFoundError:
        return False
