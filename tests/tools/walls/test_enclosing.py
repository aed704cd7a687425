"""Honest work inside the wall goes on; a wall that cannot be built is refused; nobody needs to be root for one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.house.sources import ROOT

from trainwright.server import entry
from trainwright.tools.walls import calls, ending
from trainwright.tools.walls.wall import not_covered

from .conftest import ENCLOSE, SECRET, no_namespaces

pytestmark = pytest.mark.slow
NOBODY = 65534
OPEN_FILES = ("__init__.py", "tools/__init__.py", "tools/walls", "server/__init__.py", "server/entry.py")
OPEN_FILES += ("server/commands/__init__.py", "server/commands/enclose.py")
OPEN_FILES += ("trainer/__init__.py", "trainer/starting/__init__.py", "trainer/starting/wall.py")


def test_python_git_and_tests_of_the_project_work(machine):
    (machine.project / "test_it.py").write_text("def test_it(tmp_path):\n    assert tmp_path.is_dir()\n")
    name = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (
        (sys.executable, "train.py"),
        ("git", "init", "-q"),
        ("git", "add", "train.py"),
        ("git", *name, "commit", "-qm", "Begin"),
        (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"),
        ("sh", "-c", "echo kept > $TMPDIR/file && mktemp && mkdir -p sub && mv train.py sub/ && cp sub/train.py ."),
    ):
        done = machine.run(*command)
        assert done.returncode == 0, (command, done.stdout + done.stderr)
    assert (machine.project / ".git" / "HEAD").is_file()
    assert (machine.project / "sub" / "train.py").is_file()


def test_terminals_of_its_own_can_be_opened_where_namespaces_are(machine):
    opened = machine.run(sys.executable, "-c", "import os; print(len(os.openpty()), len(os.listdir('/dev/pts')))")
    assert opened.stdout == ("" if machine.only_landlock else "2 2\n")


def test_torch_is_imported_from_the_environment(machine):
    pytest.importorskip("torch")
    done = machine.run(sys.executable, "-c", "import torch; print(float(torch.ones(3).sum()))")
    assert done.stdout == "3.0\n", done.stderr


def test_the_exit_status_the_input_and_the_signals_are_the_command_s(machine):
    assert machine.run("sh", "-c", "exit 7").returncode == 7
    assert machine.run("sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert machine.run("cat", input="given").stdout == "given"
    wait = "import signal, time; signal.signal(15, lambda *_: exit(5)); print('up', flush=True); time.sleep(60)"
    command = machine.enclosed(sys.executable, "-c", wait)
    with subprocess.Popen(command, cwd=machine.project, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        started.terminate()
        assert started.wait() == 5


def test_the_temporary_folder_is_gone_afterwards(machine, tmp_path):
    (tmp_path / "temporary").mkdir()
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = machine.run("sh", "-c", "touch $TMPDIR/file; echo $TMPDIR", env=env)
    assert done.stdout.startswith(f"{tmp_path}/temporary/")
    assert not list((tmp_path / "temporary").iterdir())


def test_a_temporary_folder_deeper_than_a_path_or_recursion_reaches_is_gone_afterwards(machine, tmp_path):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "file").touch()
    dig = "import os; os.chdir(os.environ['TMPDIR']); os.symlink('../../../beside', 'link')\n"
    dig += "for _ in range(2500): os.mkdir('deeper'); os.chdir('deeper')"
    env = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    done = machine.run(sys.executable, "-c", dig, env=env)
    left = list((tmp_path / "temporary").iterdir())
    subprocess.run(["rm", "-rf", tmp_path / "temporary"], check=True)  # which pytest's own removal could not
    assert (done.returncode, done.stderr, left) == (0, "", [])
    assert (tmp_path / "beside" / "file").exists()


LEFT = "setsid sleep 40 & (sh -c 'setsid sh -c \"sleep 40 & sleep 40\" & sleep 40' &) & echo up"
"""Leaves processes in sessions of their own, which hold its output open."""


def test_what_the_command_leaves_behind_ends_with_it(machine):
    done = machine.run("sh", "-c", f"{LEFT}; exit 6", timeout=20)
    assert (done.returncode, done.stdout) == (6, "up\n")


def test_what_a_signal_ends_leaves_nothing_behind(machine):
    command = machine.enclosed("sh", "-c", f"{LEFT}; exec sleep 40")
    with subprocess.Popen(command, cwd=machine.project, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        started.terminate()
        assert started.communicate(timeout=20) == (b"", None)
        assert started.returncode == 128 + signal.SIGTERM


def test_nothing_lives_on_once_the_process_outside_is_killed(machine, tmp_path):
    command = machine.enclosed("sh", "-c", f"{LEFT}; exec sleep 40")
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # whose folder nobody removes
    with subprocess.Popen(command, cwd=machine.project, stdout=subprocess.PIPE, env=env) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        started.kill()
        assert started.communicate(timeout=20) == (b"", None)


def test_the_command_ends_if_the_wall_s_inner_process_is_killed(machine):
    command = machine.enclosed("sh", "-c", "echo up; exec sleep 40")
    with subprocess.Popen(command, cwd=machine.project, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        numbers = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
        (inner,) = [number for number in numbers if ending.parent(number) == started.pid]
        os.kill(int(inner), signal.SIGKILL)
        assert started.communicate(timeout=20) == (b"", None)
        assert started.returncode == 128 + signal.SIGKILL


def test_what_was_started_before_the_wall_goes_on(machine):
    beside = 'sleep 40 >&- 2>&- & echo $!; exec "$@"'  # its parent becomes the wall
    done = machine.run("true", through=("sh", "-c", beside, "sh"), timeout=20)
    os.kill(int(done.stdout), signal.SIGKILL)  # raises ProcessLookupError where it is gone


def test_parents_are_read_where_the_kernel_lists_no_children():
    named = (
        "import os, time; open('/proc/self/comm', 'w').write(') 1 ('); print(os.getpid(), flush=True); time.sleep(40)"
    )
    with subprocess.Popen([sys.executable, "-c", named], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"%d\n" % started.pid
        assert ending.parent(str(started.pid)) == os.getpid()
        started.kill()
    assert ending.parent(str(started.pid)) == 0


def test_a_workspace_that_is_still_to_be_made_cannot_be_made_by_the_agent(machine):
    if machine.only_landlock:
        pytest.skip("refused there: Landlock alone cannot take it out")
    shutil.rmtree(machine.workspace)
    done = machine.run("sh", "-c", "mkdir -p .trainwright && echo 'x: 1' > .trainwright/settings.yaml")
    assert done.returncode != 0
    assert not list(machine.workspace.iterdir())


def test_a_second_workspace_in_the_project_is_hidden_too(machine):
    if machine.only_landlock:
        pytest.skip("refused there: Landlock alone cannot take it out")
    other = machine.project / "older"
    shutil.copytree(machine.workspace, other)
    assert SECRET not in machine.run("cat", "older/settings.yaml").stdout


def test_no_other_workspace_can_be_put_in_place_of_one_that_lies_deeper(machine):
    if machine.only_landlock:
        pytest.skip("refused there: Landlock alone cannot take it out")
    deeper = machine.project / "a" / "b" / "workspace"
    deeper.parent.mkdir(parents=True)
    machine.workspace = machine.workspace.rename(deeper)
    for folder in ("a", "a/b", "a/b/workspace"):
        done = machine.run("mv", folder, "elsewhere")
        assert "busy" in done.stderr, done.stderr
    machine.run("sh", "-c", "rm -rf a; mkdir -p a/b/workspace && echo mine > a/b/workspace/settings.yaml")
    assert (deeper / "settings.yaml").read_text() == SECRET
    (machine.project / "link").symlink_to(machine.home)
    machine.workspace = machine.project / "link"
    assert "is reached over a link" in machine.run("true").stderr


def test_what_cannot_be_walled_is_refused_with_its_remedy(machine, tmp_path):
    inner = machine.workspace / "code"
    inner.mkdir()
    for options, said in (
        (("--project", machine.home.parent), "has your home folder in it"),
        (("--project", inner), "is, or is in, a workspace"),
        (("--project", ROOT / "docs"), "the server's own code"),
        (("--allow", tmp_path / "absent"), "There is no"),
    ):
        done = machine.run("true", options=options)
        assert (done.returncode, "Remedy: " in done.stderr) == (1, True), done.stderr
        assert said in done.stderr
    absent = machine.run("not-a-program")
    assert "No such file or directory" in absent.stderr
    assert "--allow FOLDER:ro" in absent.stderr


def test_landlock_alone_refuses_a_workspace_inside_of_the_project(tmp_path):
    (tmp_path / ".trainwright").mkdir()
    (tmp_path / ".trainwright" / "workspace.sqlite").touch()
    command = [*ENCLOSE, "--only-landlock", "--", "true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Landlock alone cannot take a folder out of another one" in done.stderr
    assert "TRAINWRIGHT_HOME" in done.stderr


def test_where_namespaces_are_refused_landlock_holds_and_says_what_it_does_not(tmp_path):
    if reason := no_namespaces():
        pytest.skip(f"needs namespaces to be refused some ({reason})")
    refuse = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    loud = [word for word in ENCLOSE if word != "--quiet"]
    command = ["unshare", "-Ur", "sh", "-c", refuse, "sh", *loud, "-w", tmp_path / "absent", "--", "ls", "/tmp"]
    (tmp_path / "project").mkdir()
    done = subprocess.run(command, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert "walled in by Landlock" in done.stderr
    assert "and namespaces" not in done.stderr
    assert "D-Bus" in done.stderr
    assert "Permission denied" in done.stderr
    inner = [*command[: command.index("-w")], "--", "true"]
    (tmp_path / "project" / ".trainwright").mkdir()
    done = subprocess.run(inner, cwd=tmp_path / "project", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there are no namespaces" in done.stderr


def test_an_option_that_is_unknown_is_said_and_nothing_is_started(tmp_path):
    command = [*ENCLOSE, "--netwrok", "--", "touch", "started"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--netwrok" in done.stderr
    assert not (tmp_path / "started").exists()


def test_what_an_older_kernel_does_not_cover_is_said():
    def said(abi, **offers):
        return "; ".join(not_covered(abi, **{"namespaces": False, "network": False, "filtered": True} | offers))

    assert "TCP" in said(3)
    assert "TCP" not in said(3, network=True)
    assert "signals" in said(5)
    assert "signals" not in said(6)
    assert "D-Bus" in said(7)
    assert "D-Bus" not in said(7, namespaces=True)
    assert "UDP" in said(7, filtered=False)
    for gap in ("modes, times and attributes", "priorities and CPUs", "System V shared memory", "processes are killed"):
        assert gap in said(7)
        assert gap not in said(7, namespaces=True)
    assert "keyrings, limits of other processes" in said(7, filtered=False)
    assert "keyrings" in said(7, filtered=False, namespaces=True)
    assert "limits of" not in said(7, filtered=False, namespaces=True)
    assert "keyrings" not in said(7)
    assert calls.supported() == (os.uname().machine in {"x86_64", "aarch64"})


@pytest.fixture
def readable():
    """The wall's own files and a project, where every user can read them."""
    python = Path("/usr/bin/python3")
    if os.getuid() or not python.exists():
        pytest.skip("needs to be root, with a Python that every user may start, to become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file in OPEN_FILES:
            source, target = ROOT / "src" / "trainwright" / file, folder / "product" / "trainwright" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
        (folder / "project" / ".trainwright").mkdir(parents=True)
        (folder / "project" / ".trainwright" / "workspace.sqlite").write_text(SECRET)
        for path in (folder / "project", *(folder / "project").rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        yield folder, python


def as_nobody(readable, *command, **environment):
    folder, python = readable
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "product"), "HOME": "/nonexistent", **environment}
    return subprocess.run(
        [python, "-B", "-P", "-m", entry.__name__, "enclose", "--", *command],
        cwd=folder / "project",
        env=env,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_user_without_privileges_builds_the_same_wall(readable):
    if reason := no_namespaces():
        pytest.skip(f"this machine offers no user namespaces ({reason})")
    done = as_nobody(readable, "sh", "-c", "id -u; cat .trainwright/workspace.sqlite; echo done > result; kill -9 1")
    assert done.stdout.splitlines() == [str(NOBODY)], done.stderr
    assert "walled in by Landlock" in done.stderr
    assert "No such file or directory" in done.stderr
    assert (readable[0] / "project" / "result").read_text() == "done\n"


def test_a_setuid_program_gives_no_privileges(readable):
    folder, _ = readable
    program = folder / "project" / "identify"
    shutil.copyfile("/usr/bin/id", program)
    program.chmod(0o4755)
    outside = subprocess.run([program, "-u"], user=NOBODY, capture_output=True, text=True, check=True)
    assert outside.stdout == "0\n"
    assert as_nobody(readable, "./identify", "-u").stdout == f"{NOBODY}\n"


def test_closed_folders_of_a_user_without_privileges_are_gone_afterwards(readable):
    temporary = readable[0] / "project" / "temporary"
    temporary.mkdir()
    os.chown(temporary, NOBODY, NOBODY)
    close = "mkdir -p $TMPDIR/a/b $TMPDIR/c; touch $TMPDIR/c/file; chmod 0 $TMPDIR/a/b $TMPDIR/a $TMPDIR/c $TMPDIR"
    done = as_nobody(readable, "sh", "-c", close, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stderr
    assert not list(temporary.iterdir())
