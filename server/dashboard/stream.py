"""Stream of server-sent events: looks again and again, and sends what is new with the place it reaches to."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from pydantic import BaseModel

News = TypeVar("News", bound="BaseModel")

LOOK_SECONDS = 1.0
STEP_SECONDS = 0.2
"""A server that stops waits at most this long for a stream."""
ALIVE_SECONDS = 15.0
"""After so long without news, a comment shows that the connection stands."""


async def events(
    look: Callable[[], News | None], place: Callable[[News], str], is_closing: Callable[[], bool]
) -> AsyncIterator[str]:
    """Give events as text: `id` is the place, from which a browser that reconnects continues.

    Args:
        look: returns what is new since it was called last; called in a thread.
    """
    yield "retry: 2000\n\n"
    sent_at = time.monotonic()
    while not is_closing():
        try:
            new = await anyio.to_thread.run_sync(look)
        except TrainwrightError as error:
            yield f"event: problem\ndata: {error.message.splitlines()[0]}\n\n"
            return
        if new is not None:
            yield f"id: {place(new)}\ndata: {new.model_dump_json(exclude_none=True)}\n\n"
            sent_at = time.monotonic()
        elif time.monotonic() - sent_at > ALIVE_SECONDS:
            yield ": alive\n\n"
            sent_at = time.monotonic()
        for _ in range(round(LOOK_SECONDS / STEP_SECONDS)):
            if is_closing():
                return
            await anyio.sleep(STEP_SECONDS)
