"""A cheat: who plays it, where it begins, which rule must stand against it, and how it is played."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cheat_suite.scene import Scene

Attacker = Literal["tools", "files", "code"]
Outcome = Literal["refused", "detected", "missed"]
Level = Literal["a shell", "a shell inside the wall"]
"""With tools alone, cases of `files` cannot be tried, and the others come out as with a shell."""
Play = Callable[["Scene"], None]


@dataclass(frozen=True)
class Case:
    """One cheat."""

    id: str
    title: str
    attacker: Attacker
    """tools: an agent with nothing but the server's tools. files: someone with a shell as the same user.
    code: the user's own code, in the worker."""
    stage: str
    """How far the project has come when the cheat begins; see `world.STAGES`."""
    rule: str
    """What a refusal, or the difference that is found, must say (a regular expression)."""
    expected: Outcome
    family: str
    play: Play
    requirements: tuple[str, ...]

    def expected_at(self, level: Level) -> Outcome:
        """Return what is to come of it: inside the wall, what reaches beyond code and data is refused."""
        return "refused" if self.is_walled_off and level == "a shell inside the wall" else self.expected

    @property
    def is_walled_off(self) -> bool:
        """Whether the wall stands against it."""
        return self.attacker == "files" and self.id not in CODE_ALONE


CODE_ALONE = frozenset({
    "code-after-the-gate", "code-removed", "data-after-the-gate", "data-of-a-finished-project", "train-on-changed-code",
    "code-between-permit-and-import", "teacher-between-two-looks", "weights-that-appear", "hard-rows-without-label",
    "hard-rows-deleted", "people-without-an-id", "columns-chosen-on-all-rows", "parity-of-two-columns",
    "kindest-file", "another-project-other-order", "second-release-own-column",
})  # fmt: skip
"""Cases whose files are the user's own code and data, which an agent writes inside the wall as well."""
CASES: dict[str, Case] = {}


def cheat(
    identifier: str = "", title: str = "", *, by: Attacker, at: str, rule: str, expected: Outcome,
    shows: tuple[str, ...] = (),
) -> Callable[[Play], Play]:  # fmt: skip
    """Declare the decorated function as a case; its module is its family.

    Args:
        identifier: by default the function's name, with hyphens.
        title: by default the function's docstring.
    """

    def declare(play: Play) -> Play:
        known = identifier or play.__name__.replace("_", "-")
        said = title or " ".join((play.__doc__ or "").split()).removesuffix(".")
        if known in CASES or not said:
            raise ValueError(f"two cheats are named {known}, or it has no title")
        family = play.__module__.rpartition(".")[2]
        CASES[known] = Case(known, said, by, at, rule, expected, family, play, ("GATE-5", *shows))
        return play

    return declare


def all_cases() -> list[Case]:
    """Return every case, by family and in the order of declaration within it."""
    folder = Path(__file__).parent / "families"
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        importlib.import_module(f"cheat_suite.families.{module.name}")
    return list(CASES.values())
