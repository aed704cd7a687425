"""TensorFlow, seeded at the end of its own import: before the code that imports it can draw from it.

Seeded after the user's import, all that the import drew would be unseeded; importing it here would cost runs that
never use it three seconds. So a finder waits for the import, in this process and in its forks.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NAME = "tensorflow"
_waiting: _Finder | None = None


def seed_tensorflow(seed: int) -> bool | None:
    """Seed TensorFlow, now if it is loaded and at its import otherwise; leave the other generators alone.

    Operations without a deterministic implementation are errors from then on. Its generators cannot be read, so no
    checkpoint has them.

    Returns:
        Whether it is seeded or will be; None where it is not installed, False where what is loaded is none.
    """
    global _waiting  # noqa: PLW0603 - of this process, as sys.meta_path is
    if _waiting is None or _waiting not in sys.meta_path:
        _waiting = _Finder()
        sys.meta_path.insert(0, _waiting)
    _waiting.seed = seed
    if NAME in sys.modules:
        return _waiting.seed_loaded()
    with suppress(ImportError, ValueError):
        return None if importlib.util.find_spec(NAME) is None else True
    return None


def tensorflow_seed() -> int | None:
    """Return the seed that TensorFlow was given last, or will be at its import; None before there was one."""
    return None if _waiting is None else _waiting.seed


def is_tensorflow_seeded() -> bool:
    """Return whether TensorFlow is loaded and seeded."""
    return _waiting is not None and NAME in sys.modules and _waiting.has_seeded


class _Finder(MetaPathFinder):
    """Finds TensorFlow as the other finders do, and seeds it once it has been loaded."""

    def __init__(self) -> None:
        self.seed = 0
        self.has_seeded = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the others' spec, with a loader that seeds; None for any other module."""
        if fullname != NAME:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None:
                if found.loader is not None:
                    found.loader = _Loader(found.loader, self)
                return found
        return None

    def seed_loaded(self) -> bool:
        """Seed the loaded module; return whether it is one that can be: a stand-in of some test may not be."""
        tensorflow = sys.modules[NAME]
        try:
            tensorflow.random.set_seed(self.seed)
            tensorflow.config.experimental.enable_op_determinism()
        except AttributeError:
            return False
        self.has_seeded = True
        return True


class _Loader(Loader):
    """Loads with the module's own loader, which the module keeps, and then seeds."""

    def __init__(self, own: Loader, finder: _Finder) -> None:
        self.own, self.finder = own, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what its own loader does."""
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then seed it, before control returns to whoever imports it."""
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        self.own.exec_module(module)
        self.finder.seed_loaded()
