"""The program `trainwright`: encloses a command at once, and leaves every other one to the command line."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as typing has it, which takes 10 ms to import
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the command line; what encloses starts without importing it."""
    if sys.argv[1:2] == ["enclose"]:
        from trainwright.server.commands.enclose import start

        try:
            status = start(sys.argv[2:])
        except Exception as error:  # noqa: BLE001 - people read a sentence, not a traceback
            say_and_end(error)
        if status is not None:
            os._exit(status)  # nothing is left to be said or closed: Python's own end takes 4 ms
    from trainwright.server import cli

    cli.main()


def say_and_end(error: Exception) -> NoReturn:
    """Say an error with its remedy, and end with 1. Raises it where TRAINWRIGHT_DEBUG asks for where it comes from."""
    from trainwright.trainer.base.errors import TrainwrightError
    from trainwright.trainer.base.text import visible_lines

    message, remedy = f"{type(error).__name__}: {error}", "Set TRAINWRIGHT_DEBUG=1 to see where it comes from."
    if isinstance(error, TrainwrightError):
        message, remedy = error.message, error.remedy
    elif os.environ.get("TRAINWRIGHT_DEBUG"):
        raise error
    sys.stderr.write(visible_lines(f"Error: {message}\nRemedy: {remedy}\n"))
    raise SystemExit(1)


if __name__ == "__main__":
    main()
