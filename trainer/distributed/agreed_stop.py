"""A stop that all processes of a run make after the same step."""

from __future__ import annotations

from trainwright.trainer.supervision.stop import StopRequest


class AgreedStop(StopRequest):
    """A stop of the whole group, agreed at the beginning of a step and made after it.

    Attributes:
        own: what this process was asked.
    """

    def __init__(self, own: StopRequest) -> None:
        self.own = own
        self._agreed = False

    def settle(self, *, asked: bool) -> None:
        """Take up what the group has agreed."""
        self._agreed = asked

    @property
    def asked(self) -> bool:
        """Whether the group ends after this step."""
        return self._agreed

    @property
    def reason(self) -> str:
        """Why this process was asked, or `requested` where only another one was."""
        return self.own.reason

    def ask(self, reason: str) -> None:
        """Ask for an orderly end of the group."""
        self.own.ask(reason)

    def listen(self) -> None:
        """See StopRequest."""
        self.own.listen()
