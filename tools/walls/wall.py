"""Contents of a wall: the folders, the system, the ports and the variables that an enclosed command gets."""

from __future__ import annotations

import os
import sys
from os.path import abspath, dirname, exists, expanduser, isdir, isfile, join, realpath

from trainwright.tools.walls import kernel
from trainwright.trainer.starting.wall import SYSTEM

SERVER_PORT = 8765
CPUS = "/sys/devices/system/cpu"
ETC = (
    "alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version",
    "fonts", "gai.conf", "gitconfig", "group", "host.conf", "hostname", "hosts", "inputrc", "ld.so.cache", "ld.so.conf",
    "ld.so.conf.d", "locale.alias", "localtime", "magic", "mime.types", "nsswitch.conf", "os-release", "passwd",
    "pki/ca-trust", "pki/tls/certs", "profile", "profile.d", "protocols", "python3", "resolv.conf", "rpc", "services",
    "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "vim", "xdg",
)  # fmt: skip
"""What programs need of /etc, one by one: what is not named may hold secrets."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
SECRET_ENDS = (
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "SSHPASS", "_KEY", "_PAT", "_PASS", "_PWD", "_DSN",
    "_AUTH", "_CONNECTION_STRING", "_WEBHOOK", "_WEBHOOK_URL", "_ACCESS_KEY_ID", "_TOKEN_ID",
)  # fmt: skip
"""How variables end that hold a secret."""
OUTSIDE = ("TRAINWRIGHT_", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_", "XDG_RUNTIME_DIR", "GPG_AGENT_INFO", "AWS_")
"""How variables begin that name the server's things, or ways to other processes of the user's."""

OTHER_FOLDER = "Name a folder of its own with --project FOLDER."


def inside(path: str, folder: str) -> bool:
    """Return whether a path is the folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def default_workspace() -> str:
    """Return the workspace that every command means where none is named."""
    return os.environ.get("TRAINWRIGHT_HOME") or ".trainwright"


class Wall:
    """What one enclosed command gets.

    Args:
        projects: folders that it may write; None: the present one.
        workspace: does not exist for it, nor do signing keys.
        allowed: further paths, and whether each may be written.
        ports: TCP ports that it may connect to; None: the whole network.
        keeps: names of variables that it gets although they look like secrets.

    Raises:
        ConfigurationError: a path that is not there, or a folder that holds what is to be outside.
    """

    def __init__(
        self,
        projects: list[str] | None,
        workspace: str | None = None,
        allowed: list[tuple[str, bool]] | None = None,
        ports: list[int] | None = None,
        keeps: list[str] | None = None,
    ) -> None:
        self.projects = [_existing(path) for path in projects or ["."]]
        self.ports = ports
        self.keeps = keeps or []
        self.home = realpath(expanduser("~"))
        self.named = abspath(expanduser(workspace or default_workspace()))
        self.workspace = realpath(self.named)
        config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        self.hidden = [self.workspace, realpath(expanduser(f"{config}/trainwright"))]
        if key := os.environ.get("TRAINWRIGHT_SIGNING_KEY"):
            self.hidden.append(realpath(expanduser(key)))
        product = dirname(dirname(dirname(realpath(__file__))))
        self.kept = [realpath(sys.prefix), product, realpath(expanduser(f"{cache}/trainwright"))]
        """What the server runs by: the agent reads it, and never writes it."""
        self.allowed = {_existing(path): writes for path, writes in allowed or []}
        self._require_apart()
        self.hidden += [found for project in self.projects for found in _workspaces_in(project)]

    def _require_apart(self) -> None:
        for place in [*self.projects, *(path for path, writes in self.allowed.items() if writes)]:
            if inside(self.named, place) and self.named != self.workspace:
                rule = "an enclosed command could put a workspace of its own in the link's place"
                remedy = f"Name the folder itself: --workspace {self.workspace}, for the server too."
                raise refusal(f"The workspace {self.named} is reached over a link in {place}", rule, remedy)
        for project in self.projects:
            rule = "an enclosed command may write its project folders, and nothing of that"
            if inside(self.home, project):
                raise refusal(f"The project folder {project} has your home folder in it", rule, OTHER_FOLDER)
            if any(inside(project, path) for path in self.kept):
                raise refusal(f"The project folder {project} is, or is in, the server's own code", rule, OTHER_FOLDER)
            if inside(project, self.workspace) or isfile(join(project, "workspace.sqlite")):
                raise refusal(
                    f"The project folder {project} is, or is in, a workspace",
                    "a workspace does not exist for an enclosed command",
                    "Name the folder of your code with --project FOLDER, and the workspace with --workspace DIR.",
                )

    def grants(self) -> dict[str, bool]:
        """Return what is inside, by the path under which it is named, and whether it may be written."""
        reads = [*SYSTEM, CPUS, *(f"/etc/{name}" for name in ETC), sys.prefix, sys.base_prefix, self.kept[1]]
        reads += [path for path in sys.path if isdir(path) and self._is_of_python(path)]
        found = {abspath(path): False for path in reads if exists(path)}
        return {**found, **self.allowed, **dict.fromkeys(self.projects, True)}

    def _is_of_python(self, path: str) -> bool:
        """Return whether a folder that Python imports from is its own or the server's, not one of PYTHONPATH's."""
        found, package = realpath(path), dirname(dirname(dirname(abspath(__file__))))
        places = (sys.prefix, sys.base_prefix, self.kept[1], dirname(package))
        return not inside(self.home, found) and any(inside(found, realpath(place)) for place in places)

    def conflicts(self) -> list[str]:
        """Return what must be taken out of the folders that are inside: Landlock alone cannot subtract."""
        places = {realpath(path): writes for path, writes in self.grants().items()}
        found = [path for path in self.hidden if any(inside(path, place) for place in places)]
        return found + [path for path in self.kept if any(inside(path, place) for place in places if places[place])]

    def environment(self, temporary: str) -> dict[str, str]:
        """Return the variables that the command gets: none of the server's, no secrets but those that are kept."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in self.keeps or not (name.startswith(OUTSIDE) or _is_secret(name, value))
        }
        return {**kept, "TMPDIR": temporary, "HOME": join(temporary, "home")}

    def links(self) -> dict[str, str]:
        """Return what the command finds in its home, a folder of its own: where its allowed paths really are."""
        return {
            path[len(self.home) + 1 :]: path for path in self.allowed if inside(path, self.home) and path != self.home
        }


def _is_secret(name: str, value: str) -> bool:
    """Return whether a variable is a secret by its name, or holds an address with one: scheme://user:password@host."""
    if name.upper().endswith(SECRET_ENDS):
        return True
    logins = (address.partition("/")[0].rpartition("@")[0] for address in value.split("://")[1:])
    return any(login.partition(":")[2] for login in logins)


def rights(grants: dict[str, bool]) -> dict[str, int]:
    """Return Landlock's rights for what is inside."""
    return {path: kernel.WRITES | kernel.READS if writes else kernel.READS for path, writes in grants.items()}


def not_covered(abi: int, *, namespaces: bool, network: bool, filtered: bool) -> list[str]:
    """Return what a wall on this kernel does not hold off.

    Args:
        abi: version of Landlock.
        namespaces: whether there are user namespaces.
        network: whether the network is open anyway.
        filtered: whether calls are filtered.
    """
    found = []
    if not network:
        found.append("other machines at the same port" if abi >= 4 else "TCP, which needs Landlock 4")
        found += [] if filtered else ["UDP and other transports"]
    if abi < 3 and not namespaces:
        found.append("cutting files short that one may not write (Landlock 3)")
    if abi < 6:
        found.append("abstract sockets" if namespaces else "signals to other processes, abstract sockets (Landlock 6)")
    if not namespaces:
        found.append(
            "sockets that have a path (D-Bus, docker, ssh-agent), names, sizes and modes of files outside, changes of "
            "your files' modes, times and attributes, command lines, priorities and CPUs of other processes, System V "
            "shared memory, what was started inside if the wall's own processes are killed (user namespaces)"
        )
    if not filtered:
        found.append("keys in the kernel's keyrings" + ("" if namespaces else ", limits of other processes"))
    if not filtered and _injects():
        found.append("typing into your terminal (sysctl dev.tty.legacy_tiocsti=0)")
    return found


def _injects() -> bool:
    try:
        with open("/proc/sys/dev/tty/legacy_tiocsti", encoding="utf-8") as file:
            return file.read().strip() != "0"
    except OSError:
        return True


def _existing(path: str) -> str:
    found = realpath(expanduser(path))
    if not exists(found):
        raise refusal(f"There is no {path}", "only what is there can be put inside", "Create it, or name another path.")
    return found


def _workspaces_in(project: str) -> list[str]:
    with os.scandir(project) as entries:
        return [entry.path for entry in entries if isfile(join(entry.path, "workspace.sqlite"))]


def refusal(value: str, rule: str, remedy: str) -> Exception:
    """Return the error of a wall that is not built."""
    from trainwright.trainer.base.errors import ConfigurationError  # 20 ms, which a wall that stands does not need

    return ConfigurationError(f"{value}: {rule}.", remedy=remedy)
