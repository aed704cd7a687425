"""Bounded waits: on a thread, with progress for the client, and cancelled as soon as the client gives up."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context

from trainwright.server.access import present_access
from trainwright.server.markdown import PATIENT_SECONDS
from trainwright.server.progress import Progress, RunSight, StudySight
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner import StudyView
    from trainwright.tools.training_orchestrator import RunView
    from trainwright.tools.workspace import Workspace

LONGEST_SECONDS = 86_400
"""Of any wait."""
PLAIN_SECONDS = 50
"""Of a wait whose progress the client does not ask for: many give up after a minute."""
OFFERED_SECONDS = 3600
"""What `next` asks for where the client asks for progress."""
PATIENCE_SHARE, ALIKE_SHARE = 0.8, 0.1
FIRST_SECONDS, MAX_SECONDS = 1.0, 5.0
"""Between two reports: more and more, and seldom enough for a wait of hours."""
Answer = TypeVar("Answer")
logger = logging.getLogger("trainwright")

# How long a call may wait.


@dataclass
class GivenUp:
    """When a kind of client last gave up on a wait although it heard progress, and what its waits are bounded by."""

    seconds: float = 0.0
    bound: float = LONGEST_SECONDS


@dataclass
class Patience:
    """How long a call waits: as long as it asks for where its client hears progress, else under a minute."""

    asked: float
    bound: float
    hears: bool
    begun: float = field(default_factory=time.monotonic)
    told: float = 0.0
    """The progress that the client heard last: the protocol wants every value above the one before."""

    @property
    def notes(self) -> list[str]:
        """What the answer says of a wait that ended before its time."""
        if self.asked <= self.bound or time.monotonic() - self.begun < self.bound:
            return []
        why = "gave up on longer ones" if self.hears else "asks for no progress"
        return [f"wait_seconds {self.asked:g} ended after {self.bound:g}: the client {why}; call again"]


_PRESENT: ContextVar[Patience] = ContextVar("patience")
_AT_ONCE: ContextVar[bool] = ContextVar("at once", default=False)


@contextmanager
def at_once() -> Iterator[None]:
    """Handle a call that waits for nothing, whatever it asks for: its client is given a task to ask about."""
    token = _AT_ONCE.set(True)
    try:
        yield
    finally:
        _AT_ONCE.reset(token)


def is_at_once() -> bool:
    """Return whether the present call is one whose answer becomes a task, which carries no news."""
    return _AT_ONCE.get()


@contextmanager
def patience(context: Context[Any, Any], values: dict[str, Any]) -> Iterator[Patience]:
    """Bound the wait that a call's arguments ask for, and let what it offers as `next` wait as long as it may."""
    kept: dict[str, GivenUp] = getattr(context.request_context.lifespan_context, "given_up", {})
    client, hears = _client(context), asks_for_progress(context)
    longest = kept.get(client, GivenUp()).bound if hears else PLAIN_SECONDS
    if _AT_ONCE.get() and "wait_seconds" in values:
        values["wait_seconds"] = 0.0
    found = Patience(asked=values.get("wait_seconds") or 0.0, bound=longest, hears=hears)
    if found.asked > longest:
        values["wait_seconds"] = longest
    offered = PATIENT_SECONDS.set(int(min(longest, OFFERED_SECONDS)) if longest > PLAIN_SECONDS else None)
    present = _PRESENT.set(found)
    try:
        yield found
    except asyncio.CancelledError:
        if hears and found.asked > PLAIN_SECONDS:
            _give_up(kept.setdefault(client, GivenUp()), time.monotonic() - found.begun)
        raise
    finally:
        _PRESENT.reset(present)
        PATIENT_SECONDS.reset(offered)


def _give_up(kept: GivenUp, seconds: float) -> None:
    """Bound later waits where a client gives up after the same time again: a time-out does so, a person does not."""
    if seconds > PLAIN_SECONDS and abs(seconds - kept.seconds) <= ALIKE_SHARE * seconds:
        kept.bound = max(PLAIN_SECONDS, PATIENCE_SHARE * min(seconds, kept.seconds))
    kept.seconds = seconds


def asks_for_progress(context: Context[Any, Any]) -> bool:
    """Return whether the request has a progress token: its client hears progress, and waits as long as it comes."""
    return (context.request_context.meta or {}).get("progress_token") is not None


def _client(context: Context[Any, Any]) -> str:
    """Return what tells a client's kind from others': its name and version, and whose token it brings."""
    said = context.request_context.session.client_params
    name = f"{said.client_info.name} {said.client_info.version}" if said is not None else ""
    return f"{present_access().token} {name}"


# The waits.


async def waited(
    context: Context[Any, Any],
    look: Callable[[Callable[[], bool]], Answer],
    progress: Callable[[], Progress],
) -> Answer:
    """Run `look(should_stop)` on a thread and report progress every few seconds until it returns.

    When the client cancels the call, `should_stop` turns true and the thread ends soon after; the run continues.
    """
    given_up = threading.Event()

    async def report() -> None:
        pause, heard = FIRST_SECONDS, _PRESENT.get(None) or Patience(0.0, 0.0, hears=True)
        while True:
            await anyio.sleep(pause)
            pause = min(pause * 1.2, MAX_SECONDS)
            try:
                done, total, message = await anyio.to_thread.run_sync(progress)
            except TrainwrightError:  # the answer itself reports a damaged record
                continue
            except Exception:
                logger.exception("progress cannot be told")
                continue
            heard.told = max(done, heard.told + 0.001)
            await context.report_progress(heard.told, total, message)

    reporter = asyncio.create_task(report())
    try:
        own = anyio.CapacityLimiter(1)  # waits of hours must not use up the threads that all calls share
        return await anyio.to_thread.run_sync(look, given_up.is_set, abandon_on_cancel=True, limiter=own)
    finally:
        given_up.set()
        reporter.cancel()


async def watched_run(
    context: Context[Any, Any],
    find: Callable[[], tuple[Workspace, str]],
    wait_seconds: float,
    after_step: int | None = None,
) -> RunView:
    """Return the run once it has ended, raised an alert or passed the step; at the latest after the wait.

    Args:
        find: gives the workspace and the run's id; called on the thread that waits.
    """
    from trainwright.tools.training_orchestrator import wait_for_run

    sights: list[RunSight] = []

    def look(should_stop: Callable[[], bool]) -> RunView:
        workspace, run_id = find()
        sights.append(RunSight(workspace, run_id))
        return wait_for_run(workspace, run_id, wait_seconds, after_step, should_stop=should_stop, known=())

    return await waited(context, look, lambda: sights[0]() if sights else Progress(0.0, None, "opening"))


async def watched_study(
    context: Context[Any, Any], workspace: Workspace, study_id: str, wait_seconds: float
) -> StudyView:
    """Return the study once it has ended; at the latest after the wait."""
    from trainwright.tools.hyperparameter_tuner import study_status

    def look(should_stop: Callable[[], bool]) -> StudyView:
        return study_status(workspace, study_id, wait_seconds, should_stop=should_stop)

    return await waited(context, look, StudySight(workspace, study_id))
