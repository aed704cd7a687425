"""`settings.yaml`: what only the workspace's owner decides. No tool writes it after it was first made."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Self

from filelock import FileLock
from pydantic import Field, ValidationError, field_validator, model_validator

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError, did_you_mean
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.records import Closed, Strict
from trainwright.trainer.config import load_yaml
from trainwright.trainer.data.remote.connections import Connection, Variable, variables_of
from trainwright.trainer.run.specification import Wall

# Notification: how the owner's settings say that a person is told of alerts unasked.


class Notify(Strict):
    """How the owner is told of alerts; the secrets stay in environment variables, which are only named here."""

    command: list[str] | None = Field(default=None, min_length=1)
    """A program and its arguments; the alert is its standard input."""
    webhook: str | None = Field(default=None, pattern=r"^https?://[^/\s@]+[^\s@]*$")
    """Address to which the alert is posted."""
    webhook_env: Variable | None = None
    """Variable that holds the address, where the address itself is a secret."""
    secret_env: Variable | None = None
    """Variable whose value is sent as `Authorization: Bearer …`."""
    severity: Literal["critical", "warning"] = "warning"
    """The least severity that is sent."""
    seconds: float = Field(default=10.0, gt=0, le=60, strict=False)
    """Longest time of one attempt."""

    @model_validator(mode="after")
    def _names_a_way(self) -> Self:
        if not self.ways:
            raise ValueError("name a command, a webhook or webhook_env")
        if self.webhook and self.webhook_env:
            raise ValueError("name the webhook or webhook_env, not both")
        return self

    @property
    def ways(self) -> list[str]:
        """The ways that are named: command, webhook."""
        return [*(["command"] if self.command else []), *(["webhook"] if self.webhook or self.webhook_env else [])]

    def takes(self, severity: str) -> bool:
        """Return whether alerts of this severity are sent."""
        return severity in {"critical", self.severity}


HEADER = """\
# Trainwright's owner settings. Agents cannot change them through any tool; edit them yourself.
# code_roots: folders under which projects may keep code and data (relative to this file's folder).
# limits: the most that any one project may use; an agent may ask for less, never for more.
# workspace_limits: the most that all projects together may use.
# environments: Python environments outside of the code roots in which runs may work, by folder; the server's own, one
#   that is active when it starts, and those that conda lists may be used anyway. Images of Docker by name, each one
#   (docker:pytorch/pytorch:2.4.1-cuda12.1-cudnn9-runtime): whoever may start containers can do all that root can.
# retention: checkpoints of each run that pruning keeps although nothing depends on them: keep_last, keep_best,
#   keep_every_n_epochs; budget_bytes prunes no further than that.
# price_per_gpu_hour: in your currency, what `money` is counted in; 0 counts none.
# require_git: whether code of a project must stand in a git repository.
# outer_launcher: whether another launcher (torchrun, a cluster's scheduler) may start runs. Their workers hold no key,
#   so nothing signs what they record: whoever can write the run's folder can make it up.
# evaluation_rows_bytes: the most bytes of validation and test rows that planning keeps for the independent evaluation.
#   Of more rows a sample is drawn, by a seed that no code of the project knows.
# data_cache_bytes: the most bytes that the workspace keeps of what runs make from data (tokens, matrices of large
#   tables, fetched files), in cache/data; the least recently used go first.
# warm_workers: processes that wait with torch imported, so that a run of an environment that another had before it
#   starts at once: most (of the workspace at a time; left out: the variable TRAINWRIGHT_WARM_WORKERS, else 2; 0: none)
#   and idle_seconds (300), after which one ends. Each holds at most 400 MiB of memory of its own, and none begins where
#   less than 1.6 GiB is free.
# walls: each run's worker works behind a wall where the kernel offers one (Landlock; `trainwright doctor` says): it
#   reads its code root, data, libraries and caches, and writes its own run's folder and its code root (where this
#   workspace lies in the code root, what is there when it starts and has no hidden name). reads and writes: further
#   folders that user code may read, and write too, a login such as ~/.cache/huggingface/token among them; network:
#   true, false, or the TCP ports that it may connect to, for example [443]. `walls: off`: none, which the ledger says.
# gpus: the GPUs that runs may use, for example [{id: GPU-5c…}, {id: GPU-9a…}] by `nvidia-smi -L`; left out: all that
#   the server is shown; []: none. Where no NVIDIA driver tells them, name and memory_bytes of each too.
# connections: databases and stores by name, for data: {use: sql, args: {profile: NAME}}. Each names the environment
#   variables (url_env, endpoint_env, key_env, secret_env, token_env) or the file (url_file) that hold its credentials.
# data_variables: patterns of the variables that a configuration may name itself; a worker gets those that it names.
# data_locations: patterns of what data may be fetched from, for example s3://our-bucket/*, https://example.org/*,
#   sql://CHURN_DB_URL (a variable's or a connection's name); "*": anything that credentials are there for; []: nothing.
# mlflow_uri: the MLflow server that runs with logging.mlflow are shown on, without a password; left out: a store in the
#   workspace's folder trackers.
# approvals: where you answer what agents ask for: terminal (`trainwright approve`), elicitation (a question that the
#   agent's client shows you; some clients answer by themselves); [] means in this file only.
# grants: ids of requests that you grant here.
# notify: how you are told of alerts unasked. command: a program with its arguments, run without a shell, which gets the
#   alert as JSON on its standard input. webhook: an http(s) address that the JSON is posted to, or webhook_env: the
#   variable that holds it; secret_env: the variable whose value is sent along as a bearer token. severity: warning or
#   critical, the least that is sent; seconds: the longest that one attempt may take.
"""


WARM_VARIABLE = "TRAINWRIGHT_WARM_WORKERS"
LEAST = frozenset({"gpu_utilisation_percent"})
"""Limits from below: a project may ask for more, and only the owner lets it have less."""


def _is_looser(name: str, requested: float, allowed: float) -> bool:
    return requested < allowed if name in LEAST else requested > allowed


class _Limits(Strict):
    def exceeded_by(self, requested: dict[str, float]) -> list[str]:
        """Return the names of the limits for which more is requested than this allows."""
        return [name for name, value in requested.items() if _is_looser(name, value, getattr(self, name))]


class ProjectLimits(_Limits):
    """What one project may use (GATE-4)."""

    run_wall_clock_seconds: float = Field(default=4 * 3600.0, gt=0)
    """Longest single run."""
    run_disk_bytes: int = Field(default=10 * 1024**3, gt=0)
    """Largest single run directory."""
    project_wall_clock_seconds: float = Field(default=48 * 3600.0, gt=0)
    """All runs of the project together."""
    gpu_hours: float = Field(default=100.0, ge=0)
    """Hours of work times devices, over all runs of the project."""
    money: float = Field(default=500.0, ge=0)
    """What these hours cost at `price_per_gpu_hour`."""
    trials: int = Field(default=200, ge=1)
    """Trials over all studies of the project."""
    runs_at_once: int = Field(default=2, ge=1)
    disk_bytes: int = Field(default=20 * 1024**3, gt=0)
    """All run directories of the project together."""
    baseline_minutes: float = Field(default=60.0, gt=0)
    """Longest training of a baseline that its gate takes for the fast run."""
    user_code_seconds: float = Field(default=120.0, gt=0)
    """Longest that importing and building the user's code may take."""
    gpu_utilisation_percent: float = Field(default=0.0, ge=0, le=100)
    """Least mean GPU utilisation of a baseline on GPUs; 0: too little is a warning."""


class WorkspaceLimits(_Limits):
    """What all projects together may use (GATE-4)."""

    wall_clock_seconds: float = Field(default=60 * 24 * 3600.0, gt=0)
    gpu_hours: float = Field(default=1000.0, ge=0)
    money: float = Field(default=5000.0, ge=0)
    trials: int = Field(default=5000, ge=1)
    runs_at_once: int = Field(default=8, ge=1)
    disk_bytes: int = Field(default=200 * 1024**3, gt=0)


class RetentionPolicy(Strict):
    """What is kept of the checkpoints that nothing depends on."""

    keep_last: int = Field(default=0, ge=0)
    """Newest checkpoints of each run."""
    keep_best: int = Field(default=0, ge=0)
    """Checkpoints of each run with the best values of the goal's metric."""
    keep_every_n_epochs: int | None = Field(default=None, ge=1)
    """Those at a multiple of so many epochs."""
    budget_bytes: int | None = Field(default=None, ge=0)
    """Weights are deleted only until those of the project take no more; None: all that the rest lets go."""

    def at_least(self, owner: RetentionPolicy) -> RetentionPolicy:
        """Return this policy with everything kept that the owner's keeps too."""
        every = owner.keep_every_n_epochs or self.keep_every_n_epochs
        last, best = max(self.keep_last, owner.keep_last), max(self.keep_best, owner.keep_best)
        return self.model_copy(update={"keep_last": last, "keep_best": best, "keep_every_n_epochs": every})


def _usual_warm_workers() -> int:
    """Return how many wait where the owner says nothing; what is no number in the variable counts as none."""
    named = os.environ.get(WARM_VARIABLE, "2")
    return int(named) if named.isdecimal() else 0


class WarmWorkers(Strict):
    """Processes that wait with everything imported, and fork runs' workers."""

    most: int = Field(default_factory=_usual_warm_workers, ge=0, le=64)
    """Of the workspace at a time; 0: every run starts as a process of its own."""
    idle_seconds: float = Field(default=300.0, gt=0)
    """How long one waits for a run."""


class PromotionBounds(Strict):
    """What a version must keep to be served, and the aliases that only the owner moves."""

    max_latency_ms: float | None = Field(default=None, gt=0, strict=False)
    """Longest median of one prediction, as its export measured it."""
    max_bytes: int | None = Field(default=None, gt=0)
    """Largest program."""
    max_drop: float | None = Field(default=None, ge=0, le=1, strict=False)
    """Share of the figure of the version in production by which another may be worse on the same rows, which has to be
    shown (non-inferiority); None: not worse by the whole interval."""
    needs_grant: list[str] = Field(default_factory=list)
    """Aliases of which the owner grants every move, one by one."""


class Walls(Strict):
    """What the walls round workers let through, beyond what every worker needs."""

    reads: list[str] = Field(default_factory=list)
    """Further folders and files that user code may read, relative to the workspace's folder."""
    writes: list[str] = Field(default_factory=list)
    """Those that it may write, too."""
    network: bool | list[int] = True
    """Whether workers reach the network; or the TCP ports that they may connect to."""


class ListedGpu(Strict):
    """A GPU that runs may use."""

    id: str = Field(min_length=1, pattern=r"^[^,\s]+$")
    """Its number or UUID, as CUDA_VISIBLE_DEVICES takes it."""
    name: str = ""
    """Kind; with the memory, for where no driver tells them."""
    memory_bytes: int = Field(default=0, ge=0)


class Settings(Closed):
    """The owner's decisions."""

    code_roots: list[str] = Field(default_factory=lambda: [".."])
    environments: list[str] = Field(default_factory=list)
    """Python environments and image files outside of the code roots in which runs may work; `docker:NAME`s."""
    limits: ProjectLimits = Field(default_factory=ProjectLimits)
    workspace_limits: WorkspaceLimits = Field(default_factory=WorkspaceLimits)
    retention: RetentionPolicy = Field(default_factory=RetentionPolicy)
    """What pruning keeps beyond what gates and releases depend on."""
    promotion: PromotionBounds = Field(default_factory=PromotionBounds)
    """Bounds of the gate through which a model goes into production."""
    price_per_gpu_hour: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """In the owner's currency, that of `money`."""
    require_git: bool = False
    """Whether user code must stand in a git repository."""
    outer_launcher: bool = False
    """Whether `distributed.launcher: outer` may be used, whose runs nobody signs."""
    evaluation_rows_bytes: int = Field(default=1024**3, gt=0)
    """Most bytes of validation and test rows that a smoke run keeps."""
    data_cache_bytes: int = Field(default=50 * 1024**3, gt=0)
    """Most bytes of the workspace's data cache."""
    warm_workers: WarmWorkers = Field(default_factory=WarmWorkers)
    """Processes from which runs start at once."""
    walls: Walls | None = Field(default_factory=Walls)
    """What the walls round workers let through; None: there are none."""
    gpus: list[ListedGpu] | None = None
    """GPUs that runs may use; None: all that the server is shown."""
    connections: dict[str, Connection] = Field(default_factory=dict)
    """Databases and stores by name: the variables, or files, that hold their credentials."""
    data_variables: list[str] = Field(default_factory=lambda: ["*_DB_URL", "DATA_*", "S3_*"])
    """Patterns of the environment variables that a configuration may name for its data's credentials."""
    data_locations: list[str] = Field(default_factory=lambda: ["*"])
    """Patterns of the remote files and databases that data may come from."""
    mlflow_uri: str | None = None
    """Address of the MLflow server that runs are shown on; None: the environment's, or the workspace's own store."""
    approvals: list[Literal["terminal", "elicitation"]] = Field(default_factory=lambda: ["terminal"])  # type: ignore[arg-type]
    """Where the owner answers requests, besides this file."""
    grants: list[str] = Field(default_factory=list)
    """Ids of requests that the owner grants here."""
    notify: Notify | None = None
    """How the owner is told of alerts."""

    @field_validator("walls", mode="before")
    @classmethod
    def _off(cls, value: Any) -> Any:
        return None if value is False or value == "off" else value  # `off` is a boolean of YAML

    @classmethod
    def load(cls, folder: Path, *, make: bool = True) -> Settings:
        """Read `settings.yaml` in the folder; where there is none, make it with defaults, or only take them.

        Raises:
            ConfigurationError: the file is not valid.
        """
        path = folder / "settings.yaml"
        if not path.exists() and not make:
            return cls()
        if not path.exists():
            _write_defaults(path)
        return while_unchanged(("settings", path), [str(path)], lambda: cls._read(path))

    @classmethod
    def _read(cls, path: Path) -> Settings:
        try:
            return cls.model_validate(
                load_yaml(path.read_text(encoding="utf-8", errors="replace"), source="settings.yaml")
            )
        except ValidationError as error:
            problems = "; ".join(_told(problem) for problem in error.errors())
            raise ConfigurationError(
                f"The owner's settings.yaml is not valid: {problems}.",
                remedy="The workspace's owner must correct settings.yaml in the workspace folder.",
            ) from error

    @property
    def digest(self) -> str:
        """Digest of the settings that bear on gates, recorded with every gate decision."""
        return digest_json(
            self.model_dump(
                mode="json", exclude={"notify", "warm_workers", "gpus", "environments", "promotion", "walls"}
            )
        )

    def gives_to_data(self, variable: str) -> bool:
        """Return whether a variable of the environment may be named for data: by a pattern, or in a connection."""
        return variable in variables_of({}, self.connections) or any(
            fnmatchcase(variable, pattern) for pattern in self.data_variables
        )

    def wall(self, folder: Path) -> Wall | None:
        """Return what the wall round a worker lets through, by absolute paths; None: there is to be none."""
        if self.walls is None:
            return None
        reads, writes = (
            [str((folder / Path(one).expanduser()).resolve()) for one in paths]
            for paths in (self.walls.reads, self.walls.writes)
        )
        network = self.walls.network
        return Wall(reads=reads, writes=writes, ports=None if network is True else list(network or ()))

    def allowed_roots(self, folder: Path) -> list[Path]:
        """Return the code roots as resolved folders."""
        return [(folder / Path(root).expanduser()).resolve() for root in self.code_roots]


def _write_defaults(path: Path) -> None:
    """Make the file whole or not at all, and never over one that another server or the owner has just made."""
    roots = "code_roots:\n- ..\n"
    text = HEADER + roots
    for section, limits in (("limits", ProjectLimits()), ("workspace_limits", WorkspaceLimits())):
        text += f"{section}:\n" + "".join(f"  {name}: {value!r}\n" for name, value in limits.model_dump().items())
    draft = path.with_suffix(".draft")
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            text += "price_per_gpu_hour: 0.0\nrequire_git: false\nouter_launcher: false\n"
            text += f"evaluation_rows_bytes: {Settings().evaluation_rows_bytes}\n"
            text += f"data_cache_bytes: {Settings().data_cache_bytes}\n"
            draft.write_text(f"{text}approvals: [terminal]\ngrants: []\n")
            draft.replace(path)


def _told(problem: Any) -> str:
    """Return a broken key with its value and rule; of an unknown one, the key that is near."""
    *parents, last = map(str, problem["loc"])
    key = ".".join([*parents, last])
    if problem["type"] != "extra_forbidden":
        return f"`{key}` = {str(problem['input'])[:80]!r}: {problem['msg']}"
    section: Any = Settings.model_fields[parents[0]].annotation if parents else Settings
    return f"unknown key `{key}`{did_you_mean(last, getattr(section, 'model_fields', Notify.model_fields))}"
