"""Notices to the owner, by a real command and a real HTTP server, and what becomes of those that are not taken."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select
from tests.tools.alerts.conftest import LATER, RUN

from trainwright.tools.alerts import take_news
from trainwright.tools.alerts.notices import RETRY_SECONDS, is_owing, send_due
from trainwright.tools.documents import SKILL
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.settings import Settings
from trainwright.tools.workspace.tables import RaisedAlert
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunDirectory

pytestmark = pytest.mark.requirement("DIAG-9", "MON-1")
SECRET = "hush-hush-4711"
KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"


class Hook:
    """A webhook that keeps what it gets, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.answers: list[int] = []
        self.seconds = 0.0
        self.address = ""

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """The class of the server's requests."""
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.got.append((dict(self.headers), body))
                time.sleep(hook.seconds)
                self.send_response(hook.answers.pop(0) if hook.answers else 204)
                self.send_header("Location", hook.address + "elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

        return Handler


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A real server on this machine."""
    found = Hook()
    server = ThreadingHTTPServer(("127.0.0.1", 0), found.handler())
    found.address = f"http://127.0.0.1:{server.server_port}/hook?of=me"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def secret_hook(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """One whose address and secret stand in variables."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("HOOK", hook.address)
    return hook


@pytest.fixture
def notify(workspace: Workspace) -> Callable[..., None]:
    """Write the owner's settings."""

    def write(**settings: Any) -> None:
        path = workspace.path / "settings.yaml"
        values = yaml.safe_load(path.read_text())
        path.write_text(yaml.safe_dump(values | {"notify": settings}))
        workspace.refreshed()

    return write


@pytest.fixture
def raise_alert(
    made_run: Callable[..., RunDirectory], look_at: Callable[..., Any], other_configuration: Callable[[str], None]
) -> Callable[..., RaisedAlert]:
    """Raise an alert on a run."""

    def raise_now(severity: str = "critical", run_id: str = RUN, *, changed: bool = False) -> RaisedAlert:
        made_run(run_id).append_event("alert", id="loss_spike", severity=severity, step=3, message="It went up.")
        if changed:
            other_configuration(run_id)
        found: RaisedAlert = look_at(run_id)[0]
        return found

    return raise_now


def row_of(workspace: Workspace) -> RaisedAlert:
    """The only alert."""
    with workspace.session() as session:
        return session.scalars(select(RaisedAlert)).one()


def make_due(workspace: Workspace) -> None:
    """Let the pause after a failed attempt be over."""
    with workspace.session() as session:
        session.scalars(select(RaisedAlert)).one().due_at = time.time()


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What the log says meanwhile."""
    with caplog.at_level(logging.DEBUG, logger="trainwright"):
        yield caplog


def test_a_command_gets_the_alert_as_json_once(
    workspace: Workspace, notify: Callable[..., None], raise_alert: Callable[..., RaisedAlert], tmp_path: Path
) -> None:
    kept = tmp_path / "kept $(rm -rf x).jsonl"
    notify(command=[sys.executable, "-c", KEEP, str(kept)])
    raise_alert()
    send_due(workspace)
    send_due(workspace)
    (line,) = kept.read_text().splitlines()
    alert = json.loads(line)
    told = {name: alert[name] for name in ("project", "run", "run_id", "id", "severity", "state", "step")}
    assert told == {
        "project": "digits", "run": "digits/baseline-1", "run_id": RUN, "id": "loss_spike", "severity": "critical",
        "state": "new", "step": 3,
    }  # fmt: skip
    assert not is_owing(workspace)
    assert row_of(workspace).notice == "taken"


def test_a_webhook_gets_the_alert_with_the_secret_that_a_variable_holds(
    workspace: Workspace,
    notify: Callable[..., None],
    raise_alert: Callable[..., RaisedAlert],
    secret_hook: Hook,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hook = secret_hook
    notify(webhook_env="HOOK", secret_env="HOOK_SECRET")  # noqa: S106 - the name of a variable
    hook.answers = [500, 302, 204]
    with logged(caplog):
        raise_alert()
        send_due(workspace)
        assert row_of(workspace).notice == "not taken: the webhook answered 500"
        assert is_owing(workspace)
        send_due(workspace)
        assert len(hook.got) == 1, "it is tried again later"
        make_due(workspace)
        send_due(workspace)
        assert row_of(workspace).notice == "not taken: the webhook answered 302", "the secret goes nowhere else"
        make_due(workspace)
        send_due(workspace)
    assert not is_owing(workspace)
    assert [headers["Authorization"] for headers, _ in hook.got] == [f"Bearer {SECRET}"] * 3
    assert len({body["key"] for _, body in hook.got}) == 1
    assert "tried again" in caplog.text
    written = [path.read_bytes() for path in workspace.path.rglob("*") if path.is_file()]
    for text in (SECRET, hook.address):
        assert text not in caplog.text
        assert not [content for content in written if text.encode() in content]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"command": [sys.executable, "-c", "import time; time.sleep(600)"], "seconds": 0.5}, "longer than 0.5 s"),
        ({"command": [sys.executable, "-c", "raise SystemExit(3)"]}, "the command ended with 3"),
        ({"command": ["/no/such/program"]}, "could not be started"),
        ({"webhook": "http://127.0.0.1:9/"}, "could not be reached: ConnectionRefusedError"),
        ({"webhook_env": "NO_SUCH_VARIABLE"}, "the variable NO_SUCH_VARIABLE holds no http(s) address"),
        ({"webhook": "http://127.0.0.1:9/", "secret_env": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE is not set"),
    ],
    ids=["hangs", "fails", "is not there", "refuses", "no address", "no secret"],
)
def test_what_is_not_taken_is_noted_and_tried_again(
    workspace: Workspace,
    notify: Callable[..., None],
    raise_alert: Callable[..., RaisedAlert],
    settings: dict[str, Any],
    reason: str,
) -> None:
    notify(**settings)
    raise_alert()
    send_due(workspace)
    row = row_of(workspace)
    assert reason in row.notice
    assert row.due_at is not None


def test_a_webhook_that_never_answers_is_left_in_time(
    workspace: Workspace, notify: Callable[..., None], raise_alert: Callable[..., RaisedAlert], hook: Hook
) -> None:
    notify(webhook=hook.address, seconds=0.3)
    hook.seconds = 2.0
    raise_alert()
    send_due(workspace)
    assert row_of(workspace).notice.startswith("not taken: the webhook")


def test_only_the_way_that_failed_is_tried_again_and_at_last_given_up(
    workspace: Workspace, notify: Callable[..., None], raise_alert: Callable[..., RaisedAlert], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    notify(command=[sys.executable, "-c", KEEP, str(kept)], webhook="http://127.0.0.1:9/")
    raise_alert()
    for _ in RETRY_SECONDS:
        send_due(workspace)
        assert row_of(workspace).owed == "webhook"
        make_due(workspace)
    send_due(workspace)
    assert not is_owing(workspace), "given up"
    assert len(kept.read_text().splitlines()) == 1


def test_only_what_the_owner_wants_is_sent(
    workspace: Workspace, notify: Callable[..., None], raise_alert: Callable[..., RaisedAlert], hook: Hook
) -> None:
    raise_alert()
    send_due(workspace)
    assert not is_owing(workspace), "nobody is to be notified"
    notify(webhook=hook.address, severity="critical")
    raise_alert("warning", RUN.replace("000000", "000001"))
    assert not is_owing(workspace)
    raise_alert("critical", RUN.replace("000000", "000002"))
    send_due(workspace)
    assert [body["severity"] for _, body in hook.got] == ["critical"]


@pytest.mark.parametrize(
    "settings",
    [{}, {"command": "mail me"}, {"webhook": "ftp://a/b"}, {"webhook": "https://user:word@a/b"}, {"seconds": 5},
     {"webhook": "http://a/", "webhook_env": "A"}, {"webhook_env": "http://a/"}, {"shell": "x"}],
)  # fmt: skip
def test_settings_that_name_no_way_or_a_wrong_one_are_refused(workspace: Workspace, settings: dict[str, Any]) -> None:
    (workspace.path / "settings.yaml").write_text(yaml.safe_dump({"notify": settings}))
    with pytest.raises(ConfigurationError, match="notify"):
        Settings.load(workspace.path)


def test_the_page_on_alerts_shows_settings_that_are_valid(workspace: Workspace) -> None:
    page = (SKILL / "phases" / "alerts.md").read_text()
    (block,) = [part for part in page.split("```") if part.startswith("text\nnotify:")]
    (workspace.path / "settings.yaml").write_text(block.removeprefix("text"))
    notify = Settings.load(workspace.path).notify
    assert notify is not None
    assert notify.ways == ["command", "webhook"]


def test_gates_are_not_stale_because_of_it(workspace: Workspace, notify: Callable[..., None]) -> None:
    before = workspace.settings.digest
    notify(webhook="https://example.org/hook")
    assert workspace.settings.digest == before


def test_a_notice_without_any_way_left_is_not_called_taken(
    workspace: Workspace, notify: Callable[..., None], raise_alert: Callable[..., RaisedAlert]
) -> None:
    notify(command=["/no/such/program"])
    raise_alert()
    (workspace.path / "settings.yaml").write_text("{}\n")
    workspace.refreshed()
    send_due(workspace)
    assert not is_owing(workspace)
    assert row_of(workspace).notice == "not sent: no way is configured any more"


def test_news_count_what_is_shown_left_and_of_other_projects(
    workspace: Workspace, raise_alert: Callable[..., RaisedAlert]
) -> None:
    raise_alert()
    assert take_news(workspace, {"other"}) == ([], 0, 1)
    assert take_news(workspace, {"digits"}, [(RUN, "loss_spike")]) == ([], 0, 1)
    assert take_news(workspace, set()) == ([], 0, 0), "the answer showed it"
    raise_alert(run_id=LATER, changed=True)
    (news,), left, waiting = take_news(workspace, {"digits"}, [(RUN, "loss_spike")])
    assert (news["run_id"], left, waiting) == (LATER, 0, 1)
