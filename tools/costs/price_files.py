"""Files of prices: the workspace's, one of the user's below the code root, and the template that is to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.documents import SKILL
from trainwright.tools.training_architect.traced import prices_in_force
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.estimation.prices import OWNERS, TO_WRITE, load_prices
from trainwright.trainer.run import write_generated

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.estimation.prices import PriceList

FOLDER = SKILL.parent / "cost-calculator"
TEMPLATE, EXAMPLE = FOLDER / "prices.template.yaml", FOLDER / "prices.example.yaml"
DOCUMENT = "planning/README.md"


def write_price_file(path: Path, *, example: bool = False) -> Path:
    """Write the template, or the example with invented figures, into a new file, and return its path.

    Raises:
        ConflictError: there is a file already, which is never overwritten.
    """
    if path.exists():
        raise ConflictError(
            f"There is a file {path.name} already, and it is not overwritten.",
            remedy=f"Fill in that one, or name another: {TO_WRITE} FILE.",
        )
    text = (EXAMPLE if example else TEMPLATE).read_text(encoding="utf-8")
    return write_generated(path.resolve().parent, {path.name: text})[0]


def prices_of(workspace: Workspace, code_root: Path, named: str | None) -> PriceList:
    """Return the prices of the file that a call names, else the workspace's, else those that come with the package.

    Args:
        code_root: of the project; a named file lies below it, or is the workspace's own by its name.

    Raises:
        NotFoundError: the file that is named is not there; the remedy is the command that writes the template.
        ConfigurationError: it lies elsewhere, does not fit, or has no price filled in.
    """
    if named is None:
        return _filled_in(prices_in_force(workspace))
    path = workspace.path / OWNERS
    if named != OWNERS:
        path = confine(named, code_root, key="prices")
    elif not path.is_file():
        path = code_root / OWNERS
    if not path.is_file():
        command = f"{TO_WRITE} --workspace {workspace.path}"
        raise NotFoundError(
            f"There is no file of prices {named!r}, neither in the workspace's folder nor below the code root.",
            remedy=f"Run `{command}`, fill in the rows that matter from the providers' pages named there, and call "
            "again; or leave prices out: dated ones come along.",
            document=DOCUMENT,
        )
    return _filled_in(load_prices(path))


def _filled_in(prices: PriceList) -> PriceList:
    if not prices.rows:
        raise _all_empty(prices)
    return prices


def _all_empty(prices: PriceList) -> ConfigurationError:
    pages = ", ".join(dict.fromkeys(row.source for row in prices.empty))
    return ConfigurationError(
        f"{prices.path.name} has {len(prices.empty)} rows, and a price in none of them.",
        remedy=f"Fill in price_per_hour and date of the rows that matter ({pages or 'each needs its source'}), "
        "and call again.",
        document=DOCUMENT,
    )
