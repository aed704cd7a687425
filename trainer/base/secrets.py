"""Secrets: found in a URL before it is recorded anywhere, and taken out of what a library says of its errors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

from trainwright.trainer.base.secret_kinds import PASSWORD, SIGNED, known_in

SHORTEST = 4
"""Characters of a secret that is looked for: a shorter one is part of too many words."""


def secret_in(text: str) -> str | None:
    """Return why a configuration must not hold a text, without repeating it; None where it holds no known secret."""
    if PASSWORD.search(text):
        return (
            "a URL with a password in it, and configurations are recorded; let the owner put the URL into an "
            "environment variable, and name that: `url_env: CHURN_DB_URL` (read_document('configs/data_elsewhere.md'))"
        )
    if SIGNED.search(text):
        return (
            "a URL that is signed or holds a token, and configurations are recorded; leave the token out, and name the "
            "environment variable that holds it: `storage: {token_env: NAME}`"
        )
    for place in known_in(text):
        return f"a secret ({place.kind}), and configurations are recorded; name the environment variable that holds it"
    return None


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text, of a library's error for example, with every secret in it, or password of a URL, as `***`."""
    forms = {form for secret in secrets for form in (secret, quote(secret, safe=""), unquote(secret))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= SHORTEST:
            text = text.replace(form, "***")
    return re.sub(r"://[^/\s:@?#]*:[^/\s@]+@", "://***@", text)


def plain(error: BaseException, secrets: Iterable[str] = (), *, most: int = 240) -> str:
    """Return a library's error as one line without secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    return without_secrets(text, secrets)[:most].rstrip(".")
