"""Tokens that let clients in over HTTP: made and revoked by the owner, kept as digests in a file of the workspace.

A token is 256 random bits, so nobody can try them all and a fast digest (SHA-256) hides it as well as a slow one
would: slow digests protect passwords, which people choose. For the same reason wrong ones are not counted.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from filelock import FileLock
from mcp.server.auth.provider import AccessToken
from pydantic import ValidationError

from trainwright.server.access import SCOPES, Access, Scope
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, IntegrityError, NotFoundError, near
from trainwright.trainer.base.records import Closed
from trainwright.trainer.run.directory import write_atomically

logger = logging.getLogger("trainwright")
FILE = "tokens.json"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PREFIX = "tw_"
"""So that scanners for secrets, and people, see what it is."""
RANDOM_BYTES = 32
MAX_DAYS = 3650


class Token(Closed):
    """What is kept of one token."""

    name: str
    scope: Scope
    projects: tuple[str, ...] = ()
    """The only ones it is for; none: all."""
    digest: str
    created_at: datetime
    expires_at: datetime

    @property
    def is_expired(self) -> bool:
        """Whether its time is over."""
        return datetime.now(UTC) >= self.expires_at

    @property
    def access(self) -> Access:
        """What its holder may do."""
        return Access(self.name, self.scope, self.projects)


class _File(Closed):
    tokens: tuple[Token, ...] = ()


class Tokens:
    """The tokens of one workspace; a change to the file counts from the next look on."""

    def __init__(self, workspace: Path) -> None:
        self._path = workspace / FILE
        self._seen: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Token] = {}

    def new(self, name: str, scope: Scope, projects: tuple[str, ...] = (), days: float = 90) -> str:
        """Make a token and return it: the only time that it can be read.

        Raises:
            ConfigurationError: the name or the number of days is not valid.
            ConflictError: there is one of this name.
            StorageError: the file cannot be written.
        """
        if not NAME.fullmatch(name):
            raise ConfigurationError(
                f"`{name[:63]}` is no name of a token.", remedy="Use 1 to 63 of a-z, 0-9, - and _: laptop, ci, anna."
            )
        if not 0 < days <= MAX_DAYS:
            raise ConfigurationError(
                f"--days {days:g} is not between 0 and {MAX_DAYS}.", remedy="Leave --days out: 90 days."
            )
        secret = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
        now = datetime.now(UTC).replace(microsecond=0)
        made = Token(
            name=name,
            scope=scope,
            projects=projects,
            digest=_digest(secret),
            created_at=now,
            expires_at=now + timedelta(days=days),
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            kept = self.all()
            if any(token.name == name for token in kept):
                raise ConflictError(
                    f"There is a token {name!r} already.",
                    remedy=f"Choose another name, or `trainwright tokens revoke {name}` first.",
                )
            self._write((*kept, made))
        return secret

    def revoke(self, name: str) -> None:
        """Take a token back: its next call is refused, and what it has open ends. Raises NotFoundError."""
        with self._locked():
            kept = self.all()
            left = tuple(token for token in kept if token.name != name)
            if len(left) == len(kept):
                nearest = near(name, [token.name for token in kept])
                remedy = f"Did you mean {nearest[0]}? " if nearest else ""
                raise NotFoundError(
                    f"There is no token {name[:63]!r}.", remedy=f"{remedy}`trainwright tokens list` shows them."
                )
            self._write(left)

    def all(self) -> tuple[Token, ...]:
        """Return every token, the oldest first. Raises IntegrityError for a file that is damaged."""
        self._look()
        return tuple(self._by_digest.values())

    def of(self, secret: str) -> Token | None:
        """Return the token that this is, unless it has expired."""
        return self.living(_digest(secret))

    def living(self, digest: str) -> Token | None:
        """Return the token with this digest, unless it has expired or was revoked; none of a file that is damaged."""
        try:
            self._look()
        except IntegrityError as error:
            logger.error("%s", error.message)
            return None
        token = self._by_digest.get(digest)
        return None if token is None or token.is_expired else token

    def _locked(self) -> FileLock:
        return FileLock(self._path.with_suffix(".lock"), mode=0o600)

    def _look(self) -> None:
        """Read the file where it is another one than before."""
        try:
            seen = _version(self._path.stat())
        except FileNotFoundError:
            self._seen, self._by_digest = None, {}
            return
        if seen == self._seen:
            return
        try:
            read = _File.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError) as error:
            raise IntegrityError(
                f"{FILE} cannot be read: nobody is let in.",
                remedy=f"Delete {FILE} in the workspace and make new tokens: `trainwright tokens new NAME`.",
            ) from error
        self._seen, self._by_digest = seen, {token.digest: token for token in read.tokens}

    def _write(self, tokens: tuple[Token, ...]) -> None:
        write_atomically(self._path, _File(tokens=tokens).model_dump_json(indent=2).encode(), mode=0o600)


class Verifier:
    """What the SDK asks about each request's token."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return who holds the token, with all scopes that its own holds; None for one that lets nobody in."""
        found = self._tokens.of(token)
        return None if found is None else Holder.of(found)


class Holder(AccessToken):
    """The holder of a token: as the SDK wants it, and the token as it is kept. The secret itself is not passed on."""

    kept: Token

    @classmethod
    def of(cls, token: Token) -> Holder:
        """Return the holder of a token."""
        return cls(
            token=token.digest,
            client_id=token.name,
            scopes=list(SCOPES[: SCOPES.index(token.scope) + 1]),
            expires_at=int(token.expires_at.timestamp()),
            subject=token.digest,
            kept=token,
        )


def _digest(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode()).hexdigest()


def _version(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_mtime_ns, stat.st_ino, stat.st_size
