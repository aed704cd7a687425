"""An agent with a shell inside the wall: what it tries against workspace, keys, server and network is refused."""

from __future__ import annotations

import http.server
import os
import resource
import socket
import stat
import sys
import threading
from pathlib import Path

import pytest

from trainwright.server import entry

from .conftest import SECRET

pytestmark = pytest.mark.slow
KEY_CALLS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}.get(os.uname().machine)
HOLD_A_KEY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
add, _, control, secret = *map(int, sys.argv[1:4]), sys.argv[4].encode()
libc.syscall(control, 1, 0)  # a session keyring of its own, as a login has one,
libc.syscall(control, 8, -4, -3)  # with the user's linked into it
read = ctypes.create_string_buffer(100)
for keyring in (-3, -4):
    key = libc.syscall(add, b"user", b"walls-%d" % -keyring, secret, len(secret), keyring)
    if libc.syscall(control, 11, key, read, 100) != len(secret):
        sys.exit(77)
os.execvp(sys.argv[5], sys.argv[5:])
"""
"""Has a key in the keyrings of the session and of the user, and becomes a command; 77: there are none."""


def refused(outcomes):
    """Return whether every attempt was refused, naming those that were not."""
    done = {name: what for name, (state, what) in outcomes.items() if state == "done"}
    assert outcomes
    assert not done
    return True


@pytest.fixture
def site():
    """A server on a free port of this machine, which answers `hello`."""

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served.server_address[1]
    served.shutdown()
    thread.join()
    served.server_close()


def test_the_workspace_and_the_key_cannot_be_read(machine):
    script = """
        for path in sys.argv[1:]:
            attempt(path, lambda: open(path, "rb").read())
        attempt("cat", lambda: subprocess.run(["cat", *sys.argv[1:]], check=True, capture_output=True))
        attempt("list", lambda: os.listdir(os.path.dirname(sys.argv[1])) or sys.exit(0))
    """
    outcomes = machine.play(script, *machine.contents()) if machine.only_landlock else None
    if outcomes is None:  # an empty folder stands there, which may be listed
        outcomes = machine.play(script.rsplit("attempt", 1)[0], *machine.contents())
    assert refused(outcomes)


def test_the_workspace_and_the_key_cannot_be_written_or_destroyed(machine):
    before = machine.contents()
    script = """
        for path in sys.argv[1:]:
            attempt("write " + path, lambda: open(path, "wb").write(b"mine"))
            attempt("append " + path, lambda: open(path, "ab").write(b"mine"))
            attempt("truncate " + path, lambda: os.truncate(path, 0))
            attempt("delete " + path, lambda: os.unlink(path))
            attempt("replace " + path, lambda: os.replace("train.py", path))
        folder = os.path.dirname(sys.argv[1])
        attempt("create", lambda: open(folder + "/settings.local.yaml", "w"))
        attempt("mkdir", lambda: os.mkdir(folder + "/projects/mine"))
        attempt("rename the folder", lambda: os.rename(folder, "elsewhere"))
        attempt("remove the folder", lambda: os.rmdir(folder))
    """
    workspace = sorted(before, key=lambda path: "sqlite" not in path)
    assert refused(machine.play(script, *workspace))
    assert machine.contents() == before
    assert machine.workspace.is_dir()


def test_links_and_mounts_lead_nowhere(machine):
    before = machine.contents()
    script = """
        target, folder = sys.argv[1], os.path.dirname(sys.argv[1])
        def over_a_link():
            os.symlink(target, "link")
            return open("link").read()
        def hard_link():
            os.link(target, "hard")
        def over_a_descriptor():
            place = os.open("/", os.O_PATH)
            return open(os.open(target.lstrip("/"), os.O_RDONLY, dir_fd=place)).read()
        def unmount():
            call("umount2", folder.encode(), 2)
        def mount_over():
            call("mount", b"tmpfs", b".", b"tmpfs", 0, 0)
        def remount():
            call("mount", 0, folder.encode(), 0, 32, 0)
        attempt("symlink", over_a_link)
        attempt("hardlink", hard_link)
        attempt("/proc/1/root", lambda: open("/proc/1/root" + target).read())
        attempt("openat", over_a_descriptor)
        attempt("umount", unmount)
        attempt("remount", remount)
        attempt("mount", mount_over)
        attempt("device", lambda: os.mknod("disk", 0o060600, os.makedev(254, 0)))
        attempt("unshare", lambda: subprocess.run(["unshare", "-Urm", "umount", folder], check=True))
        attempt("nested", lambda: subprocess.run(["unshare", "-Urm", "cat", target], check=True))
        call("unshare", 0x10000000)
        attempt("umount as the superuser of namespaces of one's own", unmount)
        attempt("mount as such", mount_over)
        attempt("chroot", lambda: (os.chroot("/"), open(target).read()))
    """
    assert refused(machine.play(script, machine.workspace / "workspace.sqlite"))
    assert machine.contents() == before


def test_no_signal_or_trace_reaches_the_server(machine):
    script = """
        import signal
        server = int(sys.argv[1])
        def trace():
            call("ptrace", 16, server, 0, 0)
        attempt("kill", lambda: os.kill(server, 9))
        attempt("term", lambda: os.kill(server, 15))
        attempt("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(server), 9))
        attempt("ptrace", trace)
        for name in ("environ", "mem", "maps", "fd/1", "cwd/x", "root/etc/passwd", "task/%d/environ" % server):
            attempt(name, lambda: open(f"/proc/{server}/{name}", "rb").read(100))
        attempt("parent's memory", lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1))
        attempt("parent's variables", lambda: open(f"/proc/{os.getppid()}/environ", "rb").read())
        attempt("kill the parent", lambda: os.kill(os.getppid(), 9))
        for number in filter(str.isdecimal, os.listdir("/proc")):
            if int(number) != os.getpid():
                attempt("variables of " + number, lambda: open(f"/proc/{number}/environ").read())
    """
    outcomes = machine.play(script, machine.server.pid)
    assert refused(outcomes)
    assert machine.server.poll() is None


def test_no_limit_is_set_on_the_server_and_its_own_are(machine):
    before = [resource.prlimit(machine.server.pid, kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]
    script = """
        import resource
        for name, kind in (("files", resource.RLIMIT_NOFILE), ("seconds", resource.RLIMIT_CPU)):
            attempt(name, lambda: resource.prlimit(int(sys.argv[1]), kind, (60, 60)))
        attempt("its own files", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60)))
        attempt("its own seconds", lambda: resource.prlimit(0, resource.RLIMIT_CPU, (60, 60)))
        attempt("a shell's", lambda: subprocess.run(["sh", "-c", "ulimit -n 50"], check=True))
    """
    outcomes = machine.play(script, machine.server.pid)
    assert {outcomes.pop(name)[0] for name in ("its own files", "its own seconds", "a shell's")} == {"done"}
    assert refused(outcomes)
    after = [resource.prlimit(machine.server.pid, kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)]
    assert after == before


def test_no_key_of_the_session_or_the_user_can_be_read(machine):
    if KEY_CALLS is None:
        pytest.skip("the numbers of the calls are not known for this machine's architecture")
    script = """
        add, request, control = map(int, sys.argv[1:])
        for keyring in (-3, -4):
            name = b"walls-%d" % -keyring
            attempt(f"search {keyring}", lambda: call("syscall", control, 10, keyring, b"user", name, 0))
            attempt(f"request {keyring}", lambda: call("syscall", request, b"user", name, None, keyring))
            attempt(f"add {keyring}", lambda: call("syscall", add, b"user", b"mine", b"x", 1, keyring))
            attempt(f"list {keyring}", lambda: call("syscall", control, 11, keyring, None, 0))
    """
    through = (sys.executable, "-c", HOLD_A_KEY, *map(str, KEY_CALLS), SECRET)
    if machine.run("true", through=through).returncode == 77:
        pytest.skip("this kernel offers no keyrings here")
    assert refused(machine.play(script, *KEY_CALLS, through=through))


def test_the_machine_s_devices_are_used_and_not_changed(machine):
    if machine.only_landlock:
        pytest.skip("Landlock does not cover modes, and this is said")
    if os.getuid():
        pytest.skip("needs to be root, whose devices they are")
    mode = stat.S_IMODE(Path("/dev/full").stat().st_mode)
    script = """
        for name in ("null", "zero", "full", "random", "urandom"):
            attempt(name, lambda: os.chmod(f"/dev/{name}", int(sys.argv[1])))
            attempt("times of " + name, lambda: os.utime(f"/dev/{name}"))
        assert open("/dev/null", "w").write("gone") == 4
        assert open("/dev/zero", "rb").read(2) == bytes(2)
    """
    assert refused(machine.play(script, mode))


def test_its_own_processes_alone_are_there_where_namespaces_are(machine):
    if machine.only_landlock:
        pytest.skip("without namespaces the others are listed, and said to be")
    done = machine.run("ls", "/proc")
    assert not {str(machine.server.pid), str(os.getpid())} & set(done.stdout.split())


def test_only_the_port_that_is_allowed_can_be_reached(machine, site):
    script = """
        import urllib.request
        site = f"http://127.0.0.1:{sys.argv[1]}"
        there = ("127.0.0.1", int(sys.argv[1]))
        attempt("http", lambda: urllib.request.urlopen(site).read().decode())
        attempt("plain", lambda: socket.create_connection(there, timeout=5).close())
        attempt("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(there))
        attempt("fast open", lambda: socket.socket().sendto(b"GET /", 0x20000000, there))
        attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", there))
        attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
    """
    assert refused(machine.play(script, site))
    open_now = machine.play(script, site, options=("--port", site))
    assert open_now.pop("http") == ["done", "hello"]
    assert open_now.pop("plain")[0] == "done"
    assert refused(open_now)
    whole = machine.play(script, site, options=("--network",))
    assert {whole[name][0] for name in ("http", "plain", "udp", "bind")} == {"done"}


def test_abstract_sockets_lead_to_nobody_outside(machine):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0trainwright-test-{os.getpid()}")
        listening.listen()
        script = """
            attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1]))
        """
        assert refused(machine.play(script, f"trainwright-test-{os.getpid()}"))


def test_a_socket_with_a_path_is_not_there_where_namespaces_are(machine, tmp_path):
    if machine.only_landlock:
        pytest.skip("Landlock does not cover sockets with a path up to version 7, and this is said")
    with socket.socket(socket.AF_UNIX) as listening:
        place = tmp_path / "bus"
        listening.bind(str(place))
        listening.listen()
        script = """attempt("connect", lambda: socket.socket(socket.AF_UNIX).connect(sys.argv[1]))"""
        assert refused(machine.play(script, place))


def test_what_was_open_outside_is_closed_inside(machine):
    with (machine.workspace / "workspace.sqlite").open("rb+") as held:
        script = """
            number = int(sys.argv[1])
            attempt("read", lambda: os.pread(number, 100, 0))
            attempt("folder", lambda: os.listdir(number))
            attempt("again", lambda: open(f"/proc/self/fd/{number}").read())
        """
        os.set_inheritable(held.fileno(), True)
        assert refused(machine.play(script, held.fileno(), pass_fds=[held.fileno()]))


def test_variables_of_the_server_and_secrets_are_not_passed_on(machine):
    done = machine.run("env")
    assert done.returncode == 0
    assert SECRET not in done.stdout
    assert "TRAINWRIGHT_" not in done.stdout
    assert f"OTHER_TOKEN={SECRET}" in machine.run("env", options=("--env", "OTHER_TOKEN")).stdout


NAMES = "TOKEN API_KEY SECRET PASSWORD PGPASSWORD MYSQL_PWD SSHPASS GITHUB_PAT OPENAI_KEY WANDB_KEY SENTRY_DSN"
NAMES += " ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANSIBLE_VAULT_PASS NPM_CONFIG__AUTH STORAGE_CONNECTION_STRING"
NAMES += " AWS_ACCESS_KEY_ID MODAL_TOKEN_ID GPG_PASSPHRASE db_passwd SLACK_WEBHOOK_URL"


def test_secrets_by_other_names_and_in_addresses_are_not_passed_on(machine):
    logins = {"DATABASE_URL": f"u:{SECRET}", "HTTPS_PROXY": f"u:p@{SECRET}", "CACHE": f":{SECRET}"}
    addresses = {name: f"http://first/,postgres://{login}@h:6379/d" for name, login in logins.items()}
    plain = {"SITE": "http://h:80/a@b", "REPOSITORY": "ssh://git@h:22/x", "KEYMAP": "us", "MAX_TOKENS": "5"}
    env = {**os.environ, **dict.fromkeys(NAMES.split(), SECRET), **addresses, **plain}
    said = machine.run("env", env=env).stdout.splitlines()
    assert [line for line in said if SECRET in line] == []
    assert {f"{name}={value}" for name, value in plain.items()} < set(said)
    kept = ("ANTHROPIC_API_KEY", "DATABASE_URL")
    options = tuple(word for name in kept for word in ("--env", name))
    said = machine.run("env", env=env, options=options).stdout.splitlines()
    assert sorted(line.partition("=")[0] for line in said if SECRET in line) == sorted(kept)


def test_folders_of_pythonpath_are_not_there(machine, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "diary.py").write_text(SECRET, encoding="utf-8")
    script = """
        attempt("read", lambda: open(sys.argv[1] + "/diary.py").read())
        attempt("list", lambda: os.listdir(sys.argv[1]))
    """
    path = os.pathsep.join([str(notes), os.environ.get("PYTHONPATH", "")])
    assert refused(machine.play(script, notes, env={**os.environ, "PYTHONPATH": path}))
    assert machine.run(sys.executable, "-c", f"import {entry.__package__}.cli, pytest").returncode == 0


def test_nobody_approves_from_inside(machine):
    before = machine.contents()
    done = machine.run(sys.executable, "-P", "-m", entry.__name__, "approve", "--yes", "1", "-w", machine.workspace)
    assert done.returncode == 1
    assert "Remedy: " in done.stderr
    assert "Traceback" not in done.stderr
    assert machine.contents() == before


def test_the_server_s_own_code_and_the_system_can_only_be_read(machine):
    script = """
        import trainwright
        own = os.path.dirname(os.path.realpath(trainwright.__file__))
        for folder in (own, sys.prefix, sys.base_prefix, "/usr/bin", "/etc", "/proc/sys/kernel", "/"):
            attempt(folder, lambda: open(folder + "/sitecustomize.py", "w"))
        attempt("shadow", lambda: open("/etc/shadow").read())
        attempt("core pattern", lambda: open("/proc/sys/kernel/core_pattern", "w"))
    """
    assert refused(machine.play(script))


def test_the_home_is_not_there_and_what_is_allowed_of_it_is(machine):
    (machine.home / ".ssh").mkdir()
    (machine.home / ".ssh" / "id").write_text(SECRET, encoding="utf-8")
    (machine.home / ".agent").mkdir()
    (machine.home / ".agent" / "settings.json").write_text("{}", encoding="utf-8")
    script = """
        attempt("key", lambda: open(sys.argv[1] + "/.ssh/id").read())
        attempt("key of home", lambda: open(os.path.expanduser("~/.ssh/id")).read())
    """
    assert refused(machine.play(script, machine.home))
    settings = "~/.agent/settings.json"
    write = """
        path = os.path.expanduser(sys.argv[1])
        attempt("read", lambda: open(path).read())
        attempt("write", lambda: open(path, "w").write("mine"))
    """
    allowed = machine.home / ".agent"
    assert machine.play(write, settings, options=("--allow", f"{allowed}:ro"))["write"][0] == "refused"
    assert machine.play(write, settings, options=("--allow", allowed))["write"][0] == "done"
    assert (allowed / "settings.json").read_text(encoding="utf-8") == "mine"
    assert machine.play(write, "~/notes", options=("--allow", allowed))["write"][0] == "done"
    assert not (machine.home / "notes").exists()
