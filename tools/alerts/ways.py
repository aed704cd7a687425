"""Ways of telling the owner of an alert: a command and a webhook of the owner's. Each ends in time, and raises nothing.

No secret is logged: a way reports what went wrong in our words, never what the other side wrote.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPException
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

from trainwright.tools.launchers.environment import inherited_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainwright.tools.workspace.settings import Notify


def tell(way: str, notify: Notify, alert: Mapping[str, Any]) -> str:
    """Send one alert by one way; return what went wrong, or an empty text."""
    body = json.dumps(alert, ensure_ascii=False).encode()
    return _run(notify, body) if way == "command" else _post(notify, body)


def _run(notify: Notify, body: bytes) -> str:
    """Run the command without a shell, the alert on its standard input; what outlasts its time is killed."""
    try:
        process = subprocess.Popen(
            notify.command or [],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=inherited_environment() | _secret(notify),
            start_new_session=True,
        )
    except OSError as error:
        return f"the command could not be started: {error.strerror}"
    try:
        process.communicate(body, timeout=notify.seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):  # with all that it has started
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"the command took longer than {notify.seconds:g} s"
    return f"the command ended with {process.returncode}" if process.returncode else ""


def _post(notify: Notify, body: bytes) -> str:
    """Post the alert as JSON; an answer of 2xx takes it. Nothing is followed elsewhere, for the secret goes along."""
    address = notify.webhook or os.environ.get(notify.webhook_env or "", "")
    if not address.startswith(("http://", "https://")):
        return f"the variable {notify.webhook_env} holds no http(s) address"
    secret = next(iter(_secret(notify).values()), "")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {secret}"} if secret else {})}
    if notify.secret_env and not secret:
        return f"the variable {notify.secret_env} is not set"
    answers: list[str] = []
    request = (address, body, headers, notify.seconds)
    asking = Thread(target=lambda: answers.append(_answer(*request)), name="webhook", daemon=True)
    asking.start()
    asking.join(notify.seconds)  # the library's time-out holds for each read alone
    return answers[0] if answers else f"the webhook took longer than {notify.seconds:g} s"


def _answer(address: str, body: bytes, headers: Mapping[str, str], seconds: float) -> str:
    """Return what went wrong with one request, or an empty text."""
    try:
        request = urllib.request.Request(address, body, dict(headers), method="POST")  # noqa: S310 - checked before
        with urllib.request.build_opener(_Stay).open(request, timeout=seconds):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"the webhook answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        return f"the webhook could not be reached: {type(reason).__name__}"


def _secret(notify: Notify) -> dict[str, str]:
    """Return the variable that the settings name, where this process has it."""
    name = notify.secret_env or ""
    return {name: os.environ[name]} if name in os.environ else {}


class _Stay(urllib.request.HTTPRedirectHandler):
    """Refuses to be sent elsewhere."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> NoReturn:  # noqa: ARG002, PLR0917 - the library's
        raise urllib.error.HTTPError(req.full_url, code, msg, headers, fp)
