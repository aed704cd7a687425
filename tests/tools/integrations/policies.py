"""The generated schema's policies on a real PostgreSQL, and what is changed in them to see a test fail.

Read by the tests and by `make integrations`.
"""

from __future__ import annotations

import os
import re
import subprocess

from tests.data_servers import PASSWORD, Postgres

from trainwright.tools.integrations.rendering import TEMPLATES

FOLDER = TEMPLATES / "database"
TESTS = FOLDER / "supabase" / "tests" / "predictions_policies.sql"
SCHEMA = ("plain_postgres.sql", "supabase/migrations/20261125000000_predictions.sql")
NAMES_AND_SWITCHES = 5
"""The first tests compare the names of the policies: a mutation must be seen by one that asks what a user can do."""


class Database:
    """A server with the schema, and psql on it."""

    def __init__(self, server: Postgres) -> None:
        self.server = server

    def psql(self, text: str, *, stops: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a script as the owner."""
        return subprocess.run(
            [str(self.server.programs / "psql"), "-XqAt", "-v", f"ON_ERROR_STOP={int(stops)}", "-h", "127.0.0.1",
             "-p", str(self.server.port), "-U", "postgres"],
            input=text, env={**os.environ, "PGPASSWORD": PASSWORD}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def failed(self, mutation: str = "") -> list[str]:
        """Run the policies' tests after a mutation, which is rolled back with them; return those that failed."""
        text = TESTS.read_text().replace("begin;\n", f"begin;\n{mutation}\n", 1)
        done = self.psql(text, stops=False)
        lines = done.stdout.splitlines()
        [planned] = [int(line.removeprefix("1..")) for line in lines if line.startswith("1..")]
        seen = {int(found[2]): found[0] for line in lines if (found := re.match(r"(not )?ok (\d+)", line))}
        missing = [f"test {number} was not reached" for number in range(1, planned + 1) if number not in seen]
        return [found for number, found in seen.items() if "not" in found and number > NAMES_AND_SWITCHES] + missing


def altered(table: str, policy: str, to: str) -> str:
    return f'alter policy "{policy}" on public.{table} {to};'


OWN = "(user_id = (select auth.uid()))"
READ, ADD = "users read their predictions", "users add their predictions"
READ_FEEDBACK, CHANGE = "users read their feedback", "users change their feedback"
ADD_FEEDBACK = "users add feedback on their predictions"
MUTATED: dict[str, str] = {
    "runs are hidden": altered("runs", "users read runs", "using (false)"),
    "releases are hidden": altered("releases", "users read releases", "using (false)"),
    "predictions of all are read": altered("predictions", READ, "using (true)"),
    "one's predictions are hidden": altered("predictions", READ, "using (false)"),
    "predictions of others are added": altered("predictions", ADD, "with check (true)"),
    "no prediction is added": altered("predictions", ADD, "with check (false)"),
    "feedback of all is read": altered("feedback", READ_FEEDBACK, "using (true)"),
    "one's feedback is hidden": altered("feedback", READ_FEEDBACK, "using (false)"),
    "feedback on predictions of others": altered("feedback", ADD_FEEDBACK, f"with check {OWN}"),
    "feedback in the name of others": altered(
        "feedback", ADD_FEEDBACK, "with check (exists (select from public.predictions where id = prediction_id))"
    ),
    "no feedback is added": altered("feedback", ADD_FEEDBACK, "with check (false)"),
    "feedback of others is changed": altered("feedback", CHANGE, "using (true) with check (true)"),
    "no feedback is changed": altered("feedback", CHANGE, "using (false)"),
    "feedback is given away": altered("feedback", CHANGE, f"using {OWN} with check (true)")
    + "grant update on public.feedback to authenticated;"
    + altered("feedback", READ_FEEDBACK, "using (true)"),
    "predictions are dated by users": "grant insert on public.predictions to authenticated;",
    "feedback is dated by users": "grant insert on public.feedback to authenticated;",
    "predictions are changed": "grant update on public.predictions to authenticated;",
    "predictions are deleted": "grant delete on public.predictions to authenticated;",
    "releases are changed": "grant update on public.releases to authenticated;",
    "runs are added": "grant insert on public.runs to authenticated; create policy x on public.runs for insert "
    "to authenticated with check (true);",
    "nobody reads": "grant select on public.releases to anon;",
    "nobody adds": "grant insert on public.predictions to anon; create policy x on public.predictions for insert "
    "to anon with check (true); grant select on public.releases to anon;",
    "the server reads nothing": "revoke select on public.predictions from service_role;",
    "the server changes nothing": "revoke update on public.runs from service_role;",
    **{
        f"row-level security of {table} is off": f"alter table public.{table} disable row level security;"
        for table in ("predictions", "feedback")
    },
    **{
        f"{policy} is gone": f'drop policy "{policy}" on public.{table};'
        for table, policy in (
            ("runs", "users read runs"), ("releases", "users read releases"), ("predictions", READ),
            ("predictions", ADD), ("feedback", READ_FEEDBACK), ("feedback", ADD_FEEDBACK), ("feedback", CHANGE),
        )
    },
}  # fmt: skip
