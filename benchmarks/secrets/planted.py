"""Secrets that are nobody's: drawn at random after each kind's published form, in texts as we generate them."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import NamedTuple

LETTERS = string.ascii_letters + string.digits
URL_SAFE = LETTERS + "-_"
HEX = "0123456789abcdef"
WORDS = ("churn", "digits", "loader", "tickets", "sentiment", "prices", "molecules")


class Planted(NamedTuple):
    """A text with one secret: its kind, the file's name, the text, and the secret's line (from 1)."""

    kind: str
    file: str
    text: str
    line: int


class Secret(NamedTuple):
    """A made-up secret and the name of the variable that would hold it; without one it stands in running text."""

    kind: str
    variable: str
    value: str


def drawn(rng: random.Random, length: int, alphabet: str = LETTERS) -> str:
    """Return random characters, at least one digit and letters of both cases among them where the alphabet has them."""
    while True:
        text = "".join(rng.choices(alphabet, k=length))
        groups = [
            group for group in (string.ascii_lowercase, string.ascii_uppercase, string.digits) if {*group} & {*alphabet}
        ]
        if length < 8 or all({*group} & {*text} for group in groups):
            return text


def _token(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _web_token(rng: random.Random) -> str:
    head = _token({"alg": "HS256", "typ": "JWT"})
    body = _token({"iss": "supabase", "ref": drawn(rng, 20, string.ascii_lowercase), "role": "service_role"})
    return f"{head}.{body}.{drawn(rng, 43, URL_SAFE)}"


def _secret_makers() -> dict[str, tuple[str, Callable[[random.Random], str]]]:
    """Return, by kind, the usual variable and what draws the secret."""
    upper = string.ascii_uppercase + "234567"
    numbers = string.digits
    return {
        "AWS access key": ("AWS_ACCESS_KEY_ID", lambda r: "AKIA" + drawn(r, 16, upper)),
        "AWS secret key": ("AWS_SECRET_ACCESS_KEY", lambda r: drawn(r, 40, LETTERS + "/+")),
        "Google API key": ("GOOGLE_API_KEY", lambda r: "AIza" + drawn(r, 35, URL_SAFE)),
        "Google OAuth": ("GOOGLE_CLIENT_SECRET", lambda r: "GOCSPX-" + drawn(r, 28, URL_SAFE)),
        "Azure storage": ("AZURE_STORAGE", lambda r: f"AccountName=churn;AccountKey={drawn(r, 86)}=="),
        "GitHub": ("GITHUB_TOKEN", lambda r: f"gh{r.choice('pousr')}_" + drawn(r, 36)),
        "GitHub fine-grained": ("GITHUB_PAT", lambda r: "github_pat_" + drawn(r, 22) + "_" + drawn(r, 59)),
        "GitLab": ("GITLAB_TOKEN", lambda r: "glpat-" + drawn(r, 20, URL_SAFE)),
        "Slack": (
            "SLACK_BOT",
            lambda r: f"xox{r.choice('bp')}-{drawn(r, 12, numbers)}-{drawn(r, 12, numbers)}-{drawn(r, 24)}",
        ),
        "Slack webhook": (
            "SLACK_HOOK",
            lambda r: f"https://hooks.slack.com/services/T{drawn(r, 9, upper)}/B{drawn(r, 9, upper)}/{drawn(r, 24)}",
        ),
        "Stripe": ("STRIPE_SECRET", lambda r: f"sk_{r.choice(('live', 'test'))}_" + drawn(r, 24)),
        "OpenAI": (
            "OPENAI_API_KEY",
            lambda r: "sk-proj-" + drawn(r, 74, URL_SAFE) + "T3BlbkFJ" + drawn(r, 74, URL_SAFE),
        ),
        "OpenAI, older": ("OPENAI", lambda r: "sk-" + drawn(r, 20) + "T3BlbkFJ" + drawn(r, 20)),
        "Anthropic": ("ANTHROPIC_API_KEY", lambda r: "sk-ant-api03-" + drawn(r, 93, URL_SAFE) + "AA"),
        "Hugging Face": ("HF_TOKEN", lambda r: "hf_" + drawn(r, 34, string.ascii_letters)),
        "W&B, 40 hex": ("WANDB_API_KEY", lambda r: drawn(r, 40, HEX)),
        "Supabase access": ("SUPABASE_ACCESS", lambda r: "sbp_" + drawn(r, 40, HEX)),
        "Supabase secret": ("SUPABASE", lambda r: "sb_secret_" + drawn(r, 31, URL_SAFE)),
        "JSON Web Token": ("SUPABASE_SERVICE_ROLE", _web_token),
        "Modal id": ("MODAL_TOKEN_ID", lambda r: "ak-" + drawn(r, 22)),
        "Modal secret": ("MODAL_TOKEN_SECRET", lambda r: "as-" + drawn(r, 22)),
        "RunPod": ("RUNPOD", lambda r: "rpa_" + drawn(r, 44, string.ascii_uppercase + numbers)),
        "Lambda": ("LAMBDA", lambda r: f"secret_{r.choice(WORDS)}_{drawn(r, 32, HEX)}.{drawn(r, 32)}"),
        "npm": ("NPM_AUTH", lambda r: "npm_" + drawn(r, 36)),
        "PyPI": ("TWINE", lambda r: "pypi-AgEIcHlwaS5vcmc" + drawn(r, 120, URL_SAFE)),
        "SendGrid": ("SENDGRID", lambda r: f"SG.{drawn(r, 22, URL_SAFE)}.{drawn(r, 43, URL_SAFE)}"),
        "Telegram": ("TELEGRAM", lambda r: f"{drawn(r, 10, '123456789')}:AA{drawn(r, 33, URL_SAFE)}"),
        "database URL": (
            "DATABASE_URL",
            lambda r: f"postgresql://{r.choice(WORDS)}:{drawn(r, r.randint(8, 24))}@db.internal:5432/{r.choice(WORDS)}",
        ),
        "signed URL": (
            "ROWS",
            lambda r: f"https://bucket.s3.amazonaws.com/rows.csv?X-Amz-Expires=600&X-Amz-Signature={drawn(r, 64, HEX)}",
        ),
        "password": ("POSTGRES_PASSWORD", lambda r: drawn(r, r.randint(12, 24), LETTERS + "!%*+") + r.choice("!%*+")),
        "random string": ("", lambda r: drawn(r, r.randint(32, 64))),
        "named key": ("INTERNAL_API_KEY", lambda r: drawn(r, r.randint(24, 48))),
        "private key": ("", lambda r: f"-----BEGIN {r.choice(('', 'RSA ', 'EC ', 'OPENSSH '))}PRIVATE KEY-----"),
    }


TEMPLATES = {
    "yaml": ("config.yaml", "name: {word}\nenvironment:\n  {name}: {value}\nepochs: 6\n"),
    "yaml, quoted": ("job.yaml", 'resources: {{gpus: "A10:1"}}\nenvs:\n  {name}: "{value}"\nrun: python train.py\n'),
    "python": ("service.py", 'import os\n\n{name} = "{value}"\nMODEL = os.environ["MODEL_FOLDER"]\n'),
    "typescript": ("client.ts", 'export const project = "{word}";\nconst {name}: string = "{value}";\n'),
    "sql": (
        "seed.sql",
        "create table settings (name text, value text);\ninsert into settings values ('{name} = {value}');\n",
    ),
    "markdown": ("README.md", "# {word}\n\nSet `{name}={value}` before you start, then run `make serve`.\n"),
    ".env": (".env.example", "# {word}\n{name}={value}\nPORT=8000\n"),
}
"""By kind of text, the file's name and its text."""


def planted(seed: int, count: int) -> list[Planted]:
    """Return texts with one secret each, every kind in every kind of text as far as the count goes."""
    rng = random.Random(seed)
    made = []
    makers = list(_secret_makers().items())
    for index in range(count):
        kind, (variable, make) = makers[index % len(makers)]
        file, template = list(TEMPLATES.values())[(index + index // len(makers)) % len(TEMPLATES)]
        value = make(rng)
        text = template.format(word=rng.choice(WORDS), name=variable or "NOTE", value=value)
        made.append(Planted(kind, file, text, text[: text.index(value)].count("\n") + 1))
    return made
