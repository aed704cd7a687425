"""Strings that look random and are no secrets, as they stand in what we generate."""

from __future__ import annotations

import base64
import hashlib
import io
import random
import string
import textwrap
import uuid
from collections.abc import Callable
from typing import NamedTuple

from blake3 import blake3

NOUNS = (
    "gradient", "optimizer", "learning", "rate", "transformer", "attention", "checkpoint", "validation", "confusion",
    "matrix", "embedding", "tokenizer", "batch", "normalization", "schedule", "cosine", "warmup", "dropout", "entropy",
    "sampler", "accuracy", "calibration", "distributed", "quantile", "reproducibility", "initialization",
)  # fmt: skip


class Innocent(NamedTuple):
    """A text without any secret, and what kind of string it holds."""

    kind: str
    file: str
    text: str


def _bytes(rng: random.Random, count: int) -> bytes:
    return rng.randbytes(count)


def _hex(rng: random.Random, count: int) -> str:
    return rng.randbytes(count).hex()


def _picture(rng: random.Random) -> str:
    """Return a real picture of random pixels as base64."""
    from PIL import Image

    size, format_ = rng.randint(4, 24), rng.choice(("PNG", "JPEG", "GIF"))
    file = io.BytesIO()
    Image.frombytes("RGB", (size, size), rng.randbytes(size * size * 3)).save(file, format_)
    return base64.b64encode(file.getvalue()).decode()


def _public_key(rng: random.Random) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32)).public_key()
    if rng.random() < 0.5:
        return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def _words(rng: random.Random, joiner: str, count: int = 4) -> str:
    return joiner.join(rng.choices(NOUNS, k=count))


def _path(rng: random.Random) -> str:
    parts = [
        *rng.choices(NOUNS, k=3),
        f"run-{rng.randint(1, 99)}",
        f"epoch_{rng.randint(0, 999):04d}",
        "model.safetensors",
    ]
    return "/".join(parts)


def _wheel(rng: random.Random) -> str:
    number = f"{rng.randint(1, 9)}.{rng.randint(0, 30)}.{rng.randint(0, 9)}"
    return f"{rng.choice(NOUNS)}_{rng.choice(NOUNS)}-{number}+cu128-cp311-cp311-manylinux_2_28_x86_64.whl"


def _placeholder(rng: random.Random) -> str:
    what = rng.choice(("key", "token", "secret", "password", "api_key"))
    return f"{rng.choice(NOUNS)}_{rng.choice(('dev', 'prod', 'staging2'))}_your_{what}_here"


def _numbers(rng: random.Random) -> str:
    return ", ".join(repr(rng.gauss(0, 10 ** rng.randint(-9, 9))) for _ in range(6))


def _variable(rng: random.Random) -> str:
    """Return a place that names where a secret is, as each kind of file writes it."""
    name = f"{rng.choice(NOUNS).upper()}_{rng.choice(('API_KEY', 'TOKEN', 'SECRET', 'PASSWORD'))}"
    forms = (
        f'api_key = os.environ["{name}"]', f"const token = process.env.{name}!;", f"password: ${{{name}}}",
        f"{name}: ${{{{ secrets.{name} }}}}", f"token_env: {name}", f"secret = Secret.from_name('{name.lower()}')",
        f"url: postgresql://${{DB_USER}}:${{{name}}}@db/rows", f"password = getpass.getpass('{name}: ')",
        f"auth_key = settings.{name.lower()}.get_secret_value()", f"export {name}=$(cat secrets/{name.lower()})",
        f"Authorization: Bearer ${name}", f"postgresql://{rng.choice(NOUNS)}:password@localhost/{rng.choice(NOUNS)}",
    )  # fmt: skip
    return rng.choice(forms)


def _commit(rng: random.Random) -> str:
    return f"https://git.example.org/{_words(rng, '-', 2)}/blob/{_hex(rng, 20)}/{_path(rng)}#L98"


def _time(rng: random.Random) -> str:
    day, hour = rng.randint(1, 28), rng.randint(0, 23)
    return f"2026-{rng.randint(1, 12):02d}-{day:02d}T{hour:02d}:14:07.{rng.randint(0, 999999):06d}Z"


def _configuration(rng: random.Random) -> str:
    key = f"{_words(rng, '_', 3)}_{rng.randint(1, 9)}"
    return f"tokenizer: {_words(rng, '-', 3)}, pad_token: '<pad>', cache_key: {key}"


def _key_for_browsers(rng: random.Random) -> str:
    drawn = base64.urlsafe_b64encode(rng.randbytes(23)).decode()[:31]
    return f"NEXT_PUBLIC_SUPABASE_PUBLISHABLE_KEY=sb_publishable_{drawn}"


def _smiles(rng: random.Random) -> str:
    parts = ("CC", "c1ccccc1", "C(=O)O", "N", "C(F)(F)F", "CN1C=NC2=C1", "[C@@H]", "S")
    return "".join(rng.choices(parts, k=7))


def _makers() -> dict[str, Callable[[random.Random], str]]:
    return {
        "blake3": lambda r: f"blake3:{blake3(_bytes(r, 9)).hexdigest()}",
        "sha256": lambda r: f"sha256:{hashlib.sha256(_bytes(r, 9)).hexdigest()}",
        "bare digest": lambda r: _hex(r, r.choice((16, 20, 32, 64))),
        "integrity": lambda r: f'"integrity": "sha512-{base64.b64encode(_bytes(r, 64)).decode()}"',
        "pip hash": lambda r: f"{_words(r, '-', 2)}==1.{r.randint(0, 9)} --hash=sha256:{_hex(r, 32)}",
        "go.sum": lambda r: f"example.org/{_words(r, '/', 2)} v1.2.3 h1:{base64.b64encode(_bytes(r, 32)).decode()}",
        "uuid": lambda r: str(uuid.UUID(bytes=_bytes(r, 16), version=4)),
        "named uuid": lambda r: f"request_key: {uuid.UUID(bytes=_bytes(r, 16), version=4)}",
        "path": _path,
        "address": lambda r: f"https://example.org/{_path(r)}?page={r.randint(1, 99)}#L{r.randint(1, 999)}",
        "commit": _commit,
        "slug": lambda r: f"Trainwright/{_words(r, '-', 2)}-{_hex(r, 12)}",
        "picture": lambda r: f"![](data:image/png;base64,{_picture(r)})",
        "bare picture": _picture,
        "wrapped picture": lambda r: "\n".join(textwrap.wrap(_picture(r), 76)),
        "snake case": lambda r: _words(r, "_", 5),
        "kebab case": lambda r: _words(r, "-", 5),
        "camel case": lambda r: "".join(word.title() for word in r.choices(NOUNS, k=4)) + str(r.randint(1, 99)),
        "constant": lambda r: _words(r, "_", 4).upper(),
        "module": lambda r: f"trainwright.{_words(r, '.', 4)}:{_words(r, '_', 2)}",
        "placeholder": lambda r: f"API_KEY={_placeholder(r)}",
        "bare placeholder": _placeholder,
        "documented example": lambda r: r.choice(("AKIAIOSFODNN7EXAMPLE", "sk-ant-...", "ghp_xxxxxxxxxxxxxxxxxxxx")),
        "variable": _variable,
        "run id": lambda r: f"{r.choice(NOUNS)}/{r.choice(('smoke', 'trial', 'final'))}-{r.randint(1, 400)}",
        "numbers": _numbers,
        "time": _time,
        "wheel": _wheel,
        "model name": lambda r: f"{r.choice(NOUNS)}/all-MiniLM-L{r.randint(2, 24)}-H384-v2-uncased",
        "configuration": _configuration,
        "public key": _public_key,
        "key for browsers": _key_for_browsers,
        "ULID": lambda r: "01" + "".join(r.choices(string.digits + "ABCDEFGHJKMNPQRSTVWXYZ", k=24)),
        "InChIKey": lambda r: "-".join("".join(r.choices(string.ascii_uppercase, k=k)) for k in (14, 10, 1)),
        "SMILES": _smiles,
    }  # fmt: skip


FILES = ("config.yaml", "service.py", "client.ts", "README.md", ".env.example", "package-lock.json")
TEMPLATES = (
    "{text}\n",
    "value: {text}\n",
    '    value = "{text}"\n',
    "| digest | `{text}` |\n",
    "# see {text} for more\n",
)


def innocent(seed: int, count: int) -> list[Innocent]:
    """Return texts that hold one innocent string each, every kind in turn."""
    rng = random.Random(seed)
    makers = list(_makers().items())
    made = []
    for index in range(count):
        kind, make = makers[index % len(makers)]
        template = TEMPLATES[0] if kind in {"wrapped picture", "public key"} else rng.choice(TEMPLATES)
        made.append(Innocent(kind, rng.choice(FILES), template.format(text=make(rng))))
    return made
