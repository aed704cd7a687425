"""The arguments of a task, as the plain dict that `build` expects, which knows what was read of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Arguments(dict[str, Any]):
    """A dict that notes its keys as they are read; whoever takes it as a whole has read all of them."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self._unread = set(values)

    @property
    def unread(self) -> list[str]:
        """The keys that were given, and that nobody has asked for."""
        return sorted(self._unread)

    def __getitem__(self, key: str) -> Any:
        self._unread.discard(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._unread.discard(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:  # noqa: D102 - as dict's, like all that follow
        self._unread.discard(key)
        return super().get(key, default)

    def pop(self, key: str, *default: Any) -> Any:  # noqa: D102
        self._unread.discard(key)
        return super().pop(key, *default)

    def setdefault(self, key: str, default: Any = None) -> Any:  # noqa: D102
        self._unread.discard(key)
        return super().setdefault(key, default)

    def __iter__(self) -> Iterator[str]:  # also how `**config` and `dict(config)` take it
        self._unread.clear()
        return super().__iter__()

    def keys(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().keys()

    def values(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().values()

    def items(self) -> Any:  # noqa: D102
        self._unread.clear()
        return super().items()

    def copy(self) -> dict[str, Any]:  # noqa: D102
        self._unread.clear()
        return dict(super().items())

    def __or__(self, other: Any) -> Any:
        self._unread.clear()
        return dict(super().items()) | other

    def __repr__(self) -> str:
        return repr(dict(super().items()))
