"""Python environment of a project: the one in which its runs work."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import ImpossibleError, Section

Named = Annotated[str, Field(min_length=1, max_length=1000)]
ONE_OF = "python, conda, uv, docker or apptainer"


class EnvironmentSection(Section):
    """Python environment in which runs work, and into which nothing is installed. Left out: the server's own."""

    python: Named | None = None
    """An interpreter, `.venv/bin/python`, or its environment's folder: below code_root, or where the owner allows."""
    conda: Named | None = None
    """A conda environment, by its name."""
    uv: Named | None = None
    """Folder of a uv project (`.`), whose `.venv` it is."""
    docker: Named | None = None
    """An image of Docker's that is on this machine, by its name; the owner's `environments` list it, `docker:NAME`."""
    apptainer: Named | None = None
    """An Apptainer image file, `image.sif`: below code_root, or where the owner allows."""
    variables: Annotated[list[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]], Field(max_length=32)] = Field(
        default_factory=list
    )
    """Names of the server's environment variables that runs are given too; their values are recorded nowhere."""

    @model_validator(mode="after")
    def _one_environment(self) -> Self:
        given = list(self.named)
        if not given and not self.variables:
            raise ValueError(f"environment names one of {ONE_OF}: {{python: .venv/bin/python}}")
        if len(given) > 1:
            ways: list[dict[str, object]] = [{f"environment.{name}": None} for name in given[1:]]
            raise ImpossibleError(f"environment names one of {ONE_OF}, not {' and '.join(given)}", *ways)
        return self

    @property
    def named(self) -> dict[str, str]:
        """The key that names an interpreter; none where runs work in the server's own."""
        return {name: value for name, value in self if isinstance(value, str)}

    def __str__(self) -> str:
        """Return it as answers name it: `uv: .`."""
        return next((f"{name}: {value}" for name, value in self.named.items()), "the server's own")
