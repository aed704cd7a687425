"""Kinds of secrets that are known by their form: tokens of services, private keys, passwords in addresses.

The forms are those that each service documents, or that its client checks. A kind without a form of its own (32 hex
digits, 40 letters) is known by the name that it is assigned to: `trainer/base/secret_scan.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PASSWORD = re.compile(r"://[^/\s:@?#]*:([^/\s@]+)@")
SIGNED = re.compile(
    r"://(?:(?!://)\S)*[?&;](x-amz-(signature|credential|security-token)|x-goog-(signature|credential)|awsaccesskeyid|sig|signature"
    r"|[a-z_-]*token|api_?-?key|password|passwd|pwd|[a-z_-]*secret)=",
    re.IGNORECASE,
)
"""Parameters of a URL that grant access to whoever has it."""
PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
SHORTEST_SIGNATURE = 8
"""Characters of a parameter's value that can grant access."""


class Kind(NamedTuple):
    """A kind of secret: its name, a text that stands in each (in lower case), and its form."""

    name: str
    part: str
    form: re.Pattern[str]


def _kind(name: str, part: str, form: str) -> Kind:
    return Kind(name, part.lower(), re.compile(rf"(?<![A-Za-z0-9]){form}(?![A-Za-z0-9])"))


TOKENS = (
    *(_kind("AWS access key id", part, rf"{part}[A-Z2-7]{{16}}") for part in ("AKIA", "ASIA")),
    _kind("Google API key", "AIza", r"AIza[\w-]{35}"),
    _kind("Google OAuth client secret", "GOCSPX-", r"GOCSPX-[\w-]{28}"),
    _kind("Google OAuth token", "ya29.", r"ya29\.[\w-]{40,}"),
    _kind("Azure storage key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}"),
    _kind("GitHub token", "gh", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    _kind("GitHub fine-grained token", "github_pat_", r"github_pat_\w{60,}"),
    _kind("GitLab token", "gl", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|imt)-[\w-]{20,}"),
    _kind("Slack token", "xox", r"xox[abeoprs]-[\w-]{20,}"),
    _kind("Slack app token", "xapp-", r"xapp-\d-[\w-]{20,}"),
    _kind("Slack webhook", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/[\w/]{30,}"),
    _kind("Discord webhook", "api/webhooks/", r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}"),
    _kind("Stripe key", "k_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{20,}"),
    _kind("Stripe webhook secret", "whsec_", r"whsec_[A-Za-z0-9+/]{24,}"),
    _kind("Anthropic key", "sk-ant-", r"sk-ant-[\w-]{24,}"),
    _kind("OpenAI key", "sk-", r"sk-(?:(?:proj|svcacct|admin|or-v1)-[\w-]{32,}|[A-Za-z0-9]{32,})"),
    _kind("Hugging Face token", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _kind("Hugging Face organisation token", "api_org_", r"api_org_[A-Za-z0-9]{30,}"),
    _kind("W&B key", "wandb_v1_", r"wandb_v1_\w{40,}"),
    _kind("Supabase access token", "sbp_", r"sbp_(?:v0_)?[0-9a-f]{40}"),
    _kind("Supabase secret key", "sb_secret_", r"sb_secret_[\w-]{20,}"),
    _kind("Modal token", "a", r"a[ks]-[A-Za-z0-9]{22}"),
    _kind("RunPod key", "rpa_", r"rpa_[A-Za-z0-9]{36,}"),
    _kind("Lambda key", "secret_", r"secret_[a-z0-9-]+_[0-9a-f]{32}\.[A-Za-z0-9]{32}"),
    _kind("JSON Web Token", "eyJ", r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{16,}"),
    _kind("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _kind("PyPI token", "pypi-AgEI", r"pypi-AgEI[\w-]{50,}"),
    _kind("SendGrid key", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}"),
    _kind("Twilio key", "SK", r"SK[0-9a-f]{32}"),
    _kind("Telegram bot token", ":AA", r"\d{8,10}:AA[\w-]{33}"),
    _kind("Discord bot token", ".", r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,40}"),
    _kind("Mailchimp key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    _kind("Databricks token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _kind("DigitalOcean token", "_v1_", r"do[por]_v1_[0-9a-f]{64}"),
    _kind("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    _kind("Replicate token", "r8_", r"r8_[A-Za-z0-9]{36,}"),
    _kind("xAI key", "xai-", r"xai-[A-Za-z0-9]{60,}"),
    _kind("Trainwright token", "tw_", r"tw_[\w-]{43}"),
    _kind("Docker Hub token", "dckr_", r"dckr_[po]at_[\w-]{24,}"),
    _kind("Vault token", "hv", r"hv[sbr]\.[\w-]{24,}"),
    _kind("Grafana token", "gl", r"gl(?:sa|c)_[\w=-]{32,}"),
    _kind("Postman key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _kind("age key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _kind("password of a registry or host", "machine", r"machine\s+\S+\s+login\s+\S+\s+password\s+\S+"),
    _kind("HTTP credentials", "authorization", r"(?i:authorization\W+(?:bearer|basic|token)\s+[\w+/.~-]{16,}=*)"),
    Kind("private key", "private key", PRIVATE_KEY),
    Kind("password in a URL", "://", PASSWORD),
    Kind("signed URL", "://", SIGNED),
)  # fmt: skip
"""Every kind that is known by its form; the more particular ones come first."""

PLACEHOLDER = re.compile(
    r"your[_-]?(?:\w+[_-])?(?:key|token|secret|password|id)|EXAMPLE|example[_-]|x{6,}|X{6,}|\*{3,}|\.{3}|…"
)
"""What a text holds that stands for a secret: `{project}_{env}_your_key_here`, AWS's `…EXAMPLE`, `***`."""
STANDS_FOR = re.compile(
    r"(?i)^(?:[\"']?[$%{<\[].*|pass(?:word|wd)?|pwd|pw|secret|token|changeme|user|none|null|true|false|\w*_?here|[:@].*)$"
)
"""A whole password that is none: a variable, a word that names it."""


class Place(NamedTuple):
    """A secret in a text: its first character, the one after its last, and its kind."""

    start: int
    end: int
    kind: str


def known_in(text: str) -> Iterator[Place]:
    """Yield every secret that is known by its form; placeholders are none."""
    lower = text.lower()
    for kind in TOKENS:
        if kind.part in lower:
            for match in kind.form.finditer(text):
                if not is_placeholder(kind, match):
                    yield Place(*_span(kind, match), kind.name)


def _span(kind: Kind, match: re.Match[str]) -> tuple[int, int]:
    """Return what of a match is secret: of an address its password or signature, of a private key all its lines."""
    if kind.form is PASSWORD:
        return match.span(1)
    if kind.form is SIGNED:
        return match.end(), match.end() + len(_value(match))
    if kind.form is PRIVATE_KEY:
        end = re.compile(r"-----END [^-]*-----").search(match.string, match.end())
        return match.start(), end.end() if end else match.end()
    return match.span()


def _value(match: re.Match[str]) -> str:
    """Return the value of a signed URL's parameter."""
    found = re.match(r"[^\s&;\"'`)>]*", match.string[match.end() : match.end() + 4096])
    return found[0] if found else ""


def is_placeholder(kind: Kind, match: re.Match[str]) -> bool:
    """Whether a match stands for a secret and is none."""
    if kind.form is PASSWORD:
        return bool(STANDS_FOR.match(match[1]) or PLACEHOLDER.search(match[1]))
    if kind.form is SIGNED:
        value = _value(match)
        return len(value) < SHORTEST_SIGNATURE or bool(STANDS_FOR.match(value) or PLACEHOLDER.search(value))
    return bool(PLACEHOLDER.search(match[0]))
