"""Places that a worker's wall keeps closed within what it opens: secrets, the owner's home, what others run later."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from trainwright.tools.launchers import pythons
from trainwright.tools.launchers.pythons import is_in, within
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.storage import remote_places
from trainwright.trainer.run.runtime import Runtime

SECRETS = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh", "/etc/ssl/private", "/etc/krb5.keytab",
    "/etc/NetworkManager", "/etc/wireguard", "/etc/docker", "/etc/kubernetes", "/etc/pip.conf",
    "~/.ssh", "~/.gnupg", "~/.password-store", "~/.netrc", "~/_netrc", "~/.pgpass", "~/.my.cnf", "~/.vault-token",
    "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/glab-cli", "~/.config/hub",
    "~/.pypirc", "~/.pip", "~/.config/pip", "~/.config/uv", "~/.local/share/uv/credentials", "~/.condarc", "~/.npmrc",
    "~/.cargo/credentials.toml", "~/.m2", "~/.gem", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.boto", "~/.oci",
    "~/.kube", "~/.docker", "~/.config/containers", "~/.config/doctl", "~/.config/hcloud", "~/.terraform.d",
    "~/.s3cfg", "~/.mc", "~/.config/rclone", "~/.databrickscfg", "~/.snowflake", "~/.modal.toml", "~/.sky", "~/.runpod",
    "~/.huggingface", "~/.cache/huggingface/token", "~/.cache/huggingface/stored_tokens", "~/.kaggle",
    "~/.config/kaggle", "~/.config/wandb", "~/.comet.config", "~/.neptune", "~/clearml.conf", "~/.claude",
    "~/.claude.json", "~/.codex", "~/.gemini", "~/.mozilla", "~/.config/google-chrome", "~/.config/chromium",
    "~/.local/share/keyrings",
)  # fmt: skip
"""What is hidden although a folder around it may be read; what data's connections or the owner name is read all the
same."""
_NAMES_A_SECRET = re.compile(
    r"TOKEN(?!IZ)|SECRET|PASS|CREDENTIAL|KEY($|_(FILE|PATH))"
    r"|^(NETRC|KUBECONFIG|BOTO_CONFIG|PIP_CONFIG_FILE|UV_CONFIG_FILE|AWS_CONFIG_FILE|NPM_CONFIG_USERCONFIG)$",
    re.IGNORECASE,
)
"""Variables whose value may be the path of a secret; that of a tokenizer is none."""
_WRITTEN = frozenset({".dvc"})
"""Hidden names in a code root that are written all the same: `dvc pull` does."""
_LOGINS = {
    **dict.fromkeys(("s3", "s3a"), "/.aws"),
    **dict.fromkeys(("gs", "gcs"), "/.config/gcloud"),
    **dict.fromkeys(("az", "abfs", "abfss"), "/.azure"),
}
"""Of stores, by the scheme of their addresses, below the home."""


def home_of(env: Mapping[str, str]) -> str:
    """Return the home folder of a process with these variables."""
    return env.get("HOME") or str(Path.home())


def cache_of(env: Mapping[str, str]) -> str:
    """Return the folder in which libraries keep what they can get again."""
    return env.get("XDG_CACHE_HOME") or f"{home_of(env)}/.cache"


def hub_of(env: Mapping[str, str]) -> str:
    """Return the folder of the hub's library."""
    return env.get("HF_HOME") or f"{cache_of(env)}/huggingface"


def secrets(env: Mapping[str, str], listed: Iterable[str] = (), code: str | None = None) -> list[str]:
    """Return what is hidden from a worker with these variables, but for what the owner has listed in settings.yaml.

    A file of the `code` root that a variable names is the code's own, for to hide it would close new names beside it;
    not so where the home lies in the root.
    """
    home = home_of(env)
    named = [one.replace("~", home, 1) for one in SECRETS]
    named += [f"{hub_of(env)}/{name}" for name in ("token", "stored_tokens")]
    given = (value for name, value in os.environ.items() if name not in env and _NAMES_A_SECRET.search(name))
    files = (os.path.realpath(value) for value in given if value.startswith("/") and Path(value).is_file())
    is_homes = code is None or is_in(os.path.realpath(home), os.path.realpath(code))
    named += [one for one in files if is_homes or not is_in(one, os.path.realpath(str(code)))]
    opened = [os.path.realpath(one) for one in listed]
    config = os.environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    key = os.environ.get("TRAINWRIGHT_SIGNING_KEY")
    closed = [one for one in named if not any(is_in(place, os.path.realpath(one)) for place in opened)]
    return [*closed, f"{config}/trainwright", *([str(Path(key).expanduser())] if key else [])]


def logins_of(config: TrainingConfig, env: Mapping[str, str]) -> list[str]:
    """Return the logins in the home by which a library reads the stores that data are read from, where none is named.

    Args:
        config: whose data's places the owner's settings admit.
    """
    places = [] if config.data is None else remote_places(config.data.use, config.data.args)
    logins = {scheme: home_of(env) + folder for scheme, folder in _LOGINS.items()} | {"hf": f"{hub_of(env)}/token"}
    schemes = {place.partition("://")[0].lower() for place in places}
    return sorted({logins[scheme] for scheme in schemes & logins.keys()})


def without_token(env: Mapping[str, str], hidden: Iterable[str]) -> dict[str, str]:
    """Return the variable by which the hub's library passes over a token that it may not read, and fails on."""
    return {"HF_TOKEN_PATH": os.devnull} if f"{hub_of(env)}/token" in hidden else {}


def unread(roots: Iterable[str], env: Mapping[str, str]) -> list[str]:
    """Return the hidden names of a home that lies in a root: settings, histories and logins of programs."""
    home = os.path.realpath(home_of(env))
    return _hidden_in(home) if any(is_in(home, os.path.realpath(root)) for root in roots) else []


def unwritten(root: str, hidden: Iterable[str], env: Mapping[str, str], runtime: Runtime | None) -> list[str]:
    """Return what user code may not write in its code root: nothing, all, or what others run or believe later.

    Where the server's Python, the home or what is hidden (the workspace) lies in it, Landlock has to open what is there
    one by one.
    """
    real, home = os.path.realpath(root), os.path.realpath(home_of(env))
    if pythons.imports_from(real):
        return [real]
    apart = [one for one in (*map(os.path.realpath, hidden), *within(real, pythons.own()), home) if is_in(one, real)]
    if not apart:
        return []
    theirs = [] if runtime is None else within(real, pythons.of_interpreter(Path(runtime.python)))
    of_home = [*_hidden_in(home), f"{home}/bin"] if home in apart else []
    kept = [one for one in _hidden_in(real) if Path(one).name not in _WRITTEN or real == home]
    return [*(one for one in apart if one != home), *theirs, *of_home, *kept]


def _hidden_in(folder: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(folder) if entry.name.startswith("."))
    except OSError:
        return []
