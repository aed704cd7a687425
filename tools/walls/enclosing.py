"""Start of a command behind a wall: build the view, forget what was open, restrict, execute, wait, clean up."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without signal's enumerations, which take 5 ms
import os
from os.path import exists, isdir, join, realpath

from trainwright.tools.walls import calls, ending, kernel, view
from trainwright.tools.walls.wall import DEVICES, Wall, inside, not_covered, refusal, rights

TYPE_CHECKING = False  # as typing has it, which takes 10 ms to import
if TYPE_CHECKING:
    from collections.abc import Callable

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
PARTS = ("", "/root", "/tmp", "/tmp/home")  # noqa: S108 - of a folder of its own
NO_VIEW = "\0"  # begins the answer of a start that got no view
MAX_BYTES = 4096  # of an answer, written at once
FIRST_OTHER = 3  # descriptors from here on are nobody's inside
ABANDONED = signal.SIGALRM  # tells the guard that the process outside was killed


def enclose(wall: Wall, command: list[str], *, only_landlock: bool = False, quiet: bool = False) -> int:
    """Run a command behind the wall, and return its exit status (128 and more: by which signal it ended).

    Args:
        wall: what is inside.
        command: the program and its arguments.
        only_landlock: as on a machine that offers no user namespaces.
        quiet: does not say on standard error what holds.

    Raises:
        ConfigurationError: the kernel cannot hold this wall, or the command is not inside.
    """
    if not kernel.landlock_abi():
        rule = "the wall is Landlock, which Linux has from 5.13 on, unless it is left out of `lsm=` at boot"
        raise refusal("This kernel offers no Landlock", rule, "Give the server a user or a machine of its own.")
    base = f"{os.environ.get('TMPDIR', '/tmp')}/trainwright-enclose-{os.urandom(6).hex()}"  # noqa: S108 - drawn
    for folder in PARTS:
        os.mkdir(base + folder, 0o700)
    try:
        return _Start(wall, command, realpath(base), quiet=quiet).run(only_landlock=only_landlock)
    finally:
        _remove(base)


def _remove(base: str) -> None:
    try:
        for folder in reversed(PARTS):
            os.rmdir(base + folder)
    except OSError:  # the command left something there
        try:
            ending.remove(base)
        except OSError:
            os.write(2, f"enclose: {base} could not be removed.\n".encode())


class _Start:
    """One command behind its wall."""

    def __init__(self, wall: Wall, command: list[str], base: str, *, quiet: bool) -> None:
        self.wall, self.command, self.quiet = wall, command, quiet
        self.namespaces, self.in_view = True, False
        self.root, self.temporary = f"{base}/root", f"{base}/tmp"  # noqa: S108
        self.grants = {**wall.grants(), self.temporary: True}
        for path, target in wall.links().items():
            link = join(self.temporary, "home", path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(target, link)
        self.folder = os.getcwd()
        if not any(inside(self.folder, path) for path in wall.projects) and not any(
            inside(self.folder, realpath(path)) for path in self.grants
        ):
            self.folder = wall.projects[0]

    def run(self, *, only_landlock: bool) -> int:
        """Return the exit status of the command. Raises ConfigurationError."""
        missing = "asked for"
        if not only_landlock:
            for path in self.wall.hidden:  # else the command could make it, and the server would believe it
                if not exists(path) and any(self.grants[place] and inside(path, place) for place in self.grants):
                    os.makedirs(path, 0o700)
            status, missing = self._attempt(self._hold)
            if not missing:
                return status
        self.namespaces = False
        if conflicts := self.wall.conflicts():
            raise refusal(
                f"{conflicts[0]} lies in a folder that is inside the wall, and there are no namespaces ({missing})",
                "Landlock alone cannot take a folder out of another one",
                "Move it out of there (a workspace: TRAINWRIGHT_HOME), or have user namespaces allowed here.",
            )
        return self._attempt(self._guard)[0]

    def _attempt(self, what: Callable[[], None]) -> tuple[int, str]:
        """Return the command's exit status, and why there is no view, if that is so. Raises ConfigurationError."""
        reader, self.writer = os.pipe()
        child = self._fork(what)
        os.close(self.writer)
        failure = os.read(reader, MAX_BYTES).decode()  # or its end, once the command has become itself
        os.close(reader)
        status = _waited_for(child)
        if failure and not failure.startswith(NO_VIEW):
            remedy = "Put it inside with --allow FOLDER:ro, or see `trainwright doctor`."
            raise refusal(failure, "nothing was started", remedy)
        return status, failure.removeprefix(NO_VIEW)

    def _fork(self, what: Callable[[], None]) -> int:
        child = os.fork()
        if child == 0:
            try:
                what()
            except OSError as error:
                said = f"{os.fsdecode(error.filename or self.command[0])}: {error.strerror}"
                os.write(self.writer, (NO_VIEW * self.in_view + said).encode())
            finally:
                os._exit(1)
        _pass_signals_on(child)
        return child

    def _hold(self) -> None:
        """Hold the namespaces, so that the process outside can do without them where they are not offered."""
        self.in_view = True
        kernel.die_with_parent()
        kernel.new_namespaces(view.OWN)
        child = self._fork(self._first)
        _forget(self.writer, keeps=False)
        os._exit(_waited_for(child))

    def _first(self) -> None:
        """Be the first process of the namespaces: build the view, start the command, and bury the dead."""
        kernel.die_with_parent()
        view.build(self.root, self.grants, self.wall.kept, self.wall.hidden)
        self.in_view = False
        child = self._fork(self._command)
        _forget(self.writer, keeps=False)
        os._exit(_waited_for(child, others=True))

    def _guard(self) -> None:
        """Stand above the command without namespaces: what it starts ends with it, or with the process outside."""
        outside = os.getppid()
        kernel.adopt_orphans()
        signal.signal(ABANDONED, _end_all)
        kernel.die_with_parent(ABANDONED)
        if os.getppid() != outside:  # it ended before the line above
            os._exit(1)
        child = self._fork(self._command)
        _forget(self.writer, keeps=False)
        status = _waited_for(child)
        ending.end_below()
        os._exit(status)

    def _command(self) -> None:
        """Become the command, restricted for good."""
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, ABANDONED, *FORWARDED):
            signal.signal(number, signal.SIG_DFL)
        kernel.die_with_parent()
        _forget(self.writer, keeps=True)
        inside = places(self.grants, _terminals(own=self.namespaces))
        if self.namespaces:
            inside |= {**rights(dict.fromkeys(view.FRESH, True)), "/": kernel.READ_FOLDER}
        os.chdir(self.folder)
        if not self.quiet:
            self._say()
        kernel.drop_privileges()
        kernel.landlock(inside, self.wall.ports)
        if calls.supported():
            kernel.filter_calls(calls.program(only_tcp=self.wall.ports is not None))
        environment = self.wall.environment(self.temporary)
        os.execve(_found(self.command[0], environment.get("PATH", "/usr/bin:/bin")), self.command, environment)  # noqa: S606

    def _say(self) -> None:
        """Say what holds, and what does not."""
        abi, names = kernel.landlock_abi(), self.namespaces
        gaps = not_covered(abi, namespaces=names, network=self.wall.ports is None, filtered=calls.supported())
        held = f"Landlock {abi}" + (" and namespaces" if names else "")
        os.write(2, f"enclose: walled in by {held}; not covered: {'; '.join(gaps) or 'nothing known'}.\n".encode())


def places(grants: dict[str, bool], terminals: list[str]) -> dict[str, int]:
    """Return Landlock's rights for all that is inside: what is granted and there, devices, and processes' files."""
    found = rights({path: writes for path, writes in grants.items() if exists(path)})
    found |= {device: kernel.DEVICE for device in [*DEVICES, *terminals] if exists(device)}
    return found | {"/proc": kernel.READS}


def _end_all(_number: int, _frame: object) -> None:
    """End what the command started, and this process: nobody outside waits for it any more."""
    ending.end_below()
    os._exit(1)


def _found(program: str, path: str) -> str:
    """Return where a program is. Raises FileNotFoundError. `os.execvpe` imports 2 ms of warnings for this."""
    places = [program] if "/" in program else [f"{folder}/{program}" for folder in path.split(":") if folder]
    for place in places:
        if os.access(place, os.X_OK) and not isdir(place):
            return place
    raise FileNotFoundError(2, os.strerror(2), program)


def _terminals(*, own: bool) -> list[str]:
    """Return the terminals that the command may open: all of its own ones, else this one only."""
    if own:
        return ["/dev/pts"]
    return [os.ttyname(number) for number in range(FIRST_OTHER) if os.isatty(number)]


def _forget(writer: int, *, keeps: bool) -> None:
    """Close what others left open, which would reach through the wall."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= FIRST_OTHER and not (keeps and int(name) == writer):
            os.closerange(int(name), int(name) + 1)  # without an error for the listing's own


def _pass_signals_on(child: int) -> None:
    """Pass signals on from here on: the command may be told to end as soon as it has begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the command as well
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    for number in FORWARDED:
        signal.signal(number, lambda number, _: os.kill(child, number))


def _waited_for(child: int, *, others: bool = False) -> int:
    """Wait for a process, and return its exit status as a shell would say it."""
    while True:
        ended, status = os.waitpid(-1 if others else child, 0)
        if ended == child:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
