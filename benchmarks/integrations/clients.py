"""The generated clients, run against the service: Python by its own library, TypeScript compiled and run by Node."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from latency import service
from programs import run
from web import PROJECT

SCRIPT = """\
import { EXAMPLE, predict, RefusedError } from "./client.js";

const url = process.env.SERVICE_URL;
const many = await predict(Array(300).fill(EXAMPLE), { url });
const odd = [{ ...EXAMPLE, planet: "Mars" } as never];
const refused = await predict(odd, { url }).catch((error: RefusedError) => error.errors);
console.log(JSON.stringify({ count: many.length, first: many[0], refused }));
"""


def client_faults(python: Path, parts: Path) -> list[str]:
    """Return what is wrong with client.py."""
    rows = parts / "rows.json"
    script = parts / "client" / "client.py"
    with service(python, parts / "service") as url:
        example = run(python, "-c", "import client, json; print(json.dumps([client.EXAMPLE] * 300))", cwd=script.parent)
        rows.write_text(example, encoding="utf-8")
        found = run(python, script, rows, cwd=parts, SERVICE_URL=url).splitlines()
    return [] if len(found) == 300 and "label" in json.loads(found[0]) else [f"client.py gave {found[:1]}"]


def typed_faults(python: Path, parts: Path) -> list[str]:
    """Return what is wrong with client.ts; the compiler is the form's."""
    if "picture" in parts.name:
        return []  # its example is no picture
    folder = PROJECT / "client"
    folder.mkdir(exist_ok=True)
    try:
        shutil.copy(parts / "client" / "client.ts", folder)
        (folder / "try.ts").write_text(SCRIPT, encoding="utf-8")
        options = ("--target", "es2022", "--module", "nodenext", "--strict", "--outDir", "out", "--ignoreConfig")
        tsc = PROJECT / "node_modules" / ".bin" / "tsc"
        run(tsc, *options, "--types", "node", "client.ts", "try.ts", cwd=folder)
        with service(python, parts / "service", rate="") as url:
            found = json.loads(run("node", "out/try.js", cwd=folder, SERVICE_URL=url))
    except (RuntimeError, ValueError) as error:
        return [f"client.ts: {error}"]
    finally:
        shutil.rmtree(folder)
    refused = [{"field": "rows[0].planet", "problem": "the model has no such field"}]
    answers = bool({"label", "values", "text"} & found["first"].keys())
    is_right = found["count"] == 300 and answers and found["refused"] == refused
    return [] if is_right else [f"client.ts gave {found}"]
