"""Bases of records that are not changed once they are made."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A record whose fields are set once."""

    model_config = ConfigDict(frozen=True)


class Closed(Frozen):
    """A frozen record that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")


class Strict(Closed):
    """A closed record that converts no types: "1" is no number."""

    model_config = ConfigDict(strict=True)
