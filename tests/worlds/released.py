"""Released models of each kind of input, trained in seconds: the folder as the last gate completes it, without gates.

A project that passes its gates takes a minute; the world of the flowers has one. These show other kinds of input: a run
is trained and exported by real workers, and what the gate adds (project, run, card) is written here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from trainwright.trainer.run import RunKind

PLANS, TOPICS = ("basic", "family", "business"), ("invoice", "login", "delivery")
WORDS = {
    "invoice": "money bill charge refund price", "login": "password account locked code enter",
    "delivery": "parcel late courier address door",
}  # fmt: skip
QUICK: dict[str, Any] = {"training": {"epochs": 4}, "logging": {"tensorboard": False}, "metrics": ["accuracy"]}


def _table(root: Path) -> dict[str, Any]:
    """Numbers with holes, categories, dates, booleans, a free text; names of columns as people write them."""
    random = np.random.default_rng(5)
    lines = ["age (years),plan,joined,active,remark,churned"]
    for row in range(120):
        age, plan = random.integers(18, 80), PLANS[random.integers(3)]
        left = "yes" if (age > 50) != (plan == "basic") else "no"
        shown = "" if row % 9 == 4 else age
        day = f"{2020 + row % 5}-{1 + row % 12:02d}-{1 + row % 28:02d}"
        lines.append(f'{shown},{plan},{day},{"true" if row % 3 else "false"},"called {row} times, it\'s fine",{left}')
    (root / "churn.csv").write_text("\n".join(lines) + "\n")
    return {
        **QUICK, "model": {"use": "mlp", "args": {"hidden": [16]}}, "optimizer": {"learning_rate": 0.02},
        "data": {"use": "csv", "args": {"path": "churn.csv", "target": "churned"}},
    }  # fmt: skip


def _number(root: Path) -> dict[str, Any]:
    """A table whose target is a number."""
    random = np.random.default_rng(6)
    rows = ((x, y, 100 + 5 * x - 3 * y) for x, y in random.normal(size=(80, 2)).round(3))
    (root / "price.csv").write_text("x,y,price\n" + "".join(f"{x},{y},{price:.3f}\n" for x, y, price in rows))
    return {
        **QUICK, "metrics": ["r2"], "loss": "mse", "target_scaling": "standardize",
        "model": {"use": "mlp", "args": {"hidden": [8]}}, "optimizer": {"learning_rate": 0.02},
        "data": {"use": "csv", "args": {"path": "price.csv", "target": "price"}},
    }  # fmt: skip


def _picture(root: Path) -> dict[str, Any]:
    random = np.random.default_rng(7)
    for number in range(60):
        name = "dark" if number % 2 else "light"
        (root / "photos" / name).mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 120, (12, 10, 3)) + (0 if name == "dark" else 120)
        Image.fromarray(pixels.astype(np.uint8)).save(root / "photos" / name / f"{number:03d}.png")
    return {
        **QUICK, "model": {"use": "cnn", "args": {"channels": [4]}}, "optimizer": {"learning_rate": 0.02},
        "data": {"use": "images", "args": {"path": "photos", "size": [9, 7]}},
    }  # fmt: skip


def _text(root: Path) -> dict[str, Any]:
    random = np.random.default_rng(8)
    lines = ["text,topic"]
    for row in range(150):
        topic = TOPICS[row % 3]
        lines.append(f"{' '.join(random.choice(WORDS[topic].split(), 5))} {row} über café,{topic}")
    (root / "tickets.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
             "intermediate_size": 32, "max_position_embeddings": 64}  # fmt: skip
    columns = {"path": "tickets.csv", "text": "text", "target": "topic"}
    return {
        **QUICK, "model": {"use": "transformers", "args": {"config": model}}, "optimizer": {"learning_rate": 0.005},
        "data": {"use": "csv", "args": {**columns, "tokenizer": "bpe:330", "max_length": 24}},
    }  # fmt: skip


def _array(root: Path) -> dict[str, Any]:
    return {**QUICK, "model": {"use": "mlp", "args": {"hidden": [16]}}, "data": {"use": "digits"}}


def _forecast(root: Path) -> dict[str, Any]:
    """Twelve numbers, of which three are predicted together."""
    random = np.random.default_rng(9)
    x = random.normal(size=(120, 12)).astype(np.float32)
    y = np.stack([x[:, :4].sum(1), x[:, 4:8].sum(1), 10 + x[:, 8:].sum(1)], axis=1)
    np.savez(root / "windows.npz", x=x, y=y.astype(np.float32))
    return {
        **QUICK, "metrics": ["mae"], "loss": "mse", "target_scaling": "standardize",
        "model": {"use": "mlp", "args": {"hidden": [16]}}, "optimizer": {"learning_rate": 0.02},
        "data": {"use": "npz", "args": {"path": "windows.npz"}},
    }  # fmt: skip


def _writing(root: Path, tokenizer: str = "bpe:300") -> dict[str, Any]:
    """Short documents, one of two sentences each, to be written on."""
    said = ("the bill is paid – merci.", "the parcel is late today.")
    lines = [json.dumps({"text": f"{said[row % 2]} {said[row % 2]} {row}"}) for row in range(60)]
    (root / "notes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 48}  # fmt: skip
    args = {"path": "notes.jsonl", "text": "text", "tokenizer": tokenizer, "block_size": 48}
    return {
        **QUICK, "metrics": ["bits_per_byte"], "loss": "next_token",
        "selection": {"metric": "bits_per_byte", "direction": "minimize"}, "training": {"epochs": 12},
        "model": {"use": "transformers", "args": {"config": model}}, "optimizer": {"learning_rate": 0.01},
        "loader": {"batch_size": 4}, "data": {"use": "jsonl", "args": args},
    }  # fmt: skip


def _packed_writing(root: Path) -> dict[str, Any]:
    """The same, characters of several documents in a block."""
    values = _writing(root, "characters")
    values["data"]["args"]["packed"] = True
    return values


def _library_writing(root: Path) -> dict[str, Any]:
    """The same, with a tokenizer of the user's whose documents begin and end with a mark of their own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    values = _writing(root, "tokens")
    made: Any = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    marks = ["<pad>", "<s>", "</s>"]
    trainer: Any = trainers.BpeTrainer(
        vocab_size=300, special_tokens=marks, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
    )
    made.train_from_iterator((root / "notes.jsonl").read_text(encoding="utf-8").splitlines(), trainer)
    names = dict(zip(("pad_token", "bos_token", "eos_token"), marks, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=made, **names).save_pretrained(root / "tokens")
    return values


def _own(root: Path) -> dict[str, Any]:
    """Sentences that the user's own code reads, prepares and presents."""
    (root / "letters.py").write_text('LETTERS = "abt"\n')
    (root / "serve.py").write_text(
        "import numpy\nfrom letters import LETTERS\n\n\n"
        "def prepare(text):\n    if not text:\n        raise ValueError('no text')\n"
        "    return numpy.array([text.count(letter) for letter in LETTERS], dtype=numpy.float32)\n\n\n"
        "def present(output, text):\n    return {'mood': ['low', 'high'][int(output[0] > 3)], 'of': len(text),"
        " 'exactly': output[0]}\n"
    )
    (root / "data.py").write_text(
        "import torch\nfrom serve import prepare\n\n\n"
        "class Sentences(torch.utils.data.Dataset):\n"
        "    def __init__(self, split):\n"
        "        self.raw_inputs = [f\"{split} {'ab'[n % 2] * (3 + n % 5)} {n}\" for n in range(40)]\n\n"
        "    def __len__(self):\n        return len(self.raw_inputs)\n\n"
        "    def __getitem__(self, place):\n        text = self.raw_inputs[place]\n"
        "        return torch.from_numpy(prepare(text)), torch.tensor([float(text.count('a'))])\n\n\n"
        "def load():\n    return {split: Sentences(split) for split in ('train', 'validation', 'test')}\n"
    )
    data = {"use": "data.py:load", "prepare": "serve.py:prepare", "present": "serve.py:present"}
    return {**QUICK, "metrics": ["mae"], "loss": "mse", "model": {"use": "mlp", "args": {"hidden": [8]}}, "data": data}


KINDS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "table": _table, "number": _number, "picture": _picture, "text": _text, "array": _array,
    "forecast": _forecast, "writing": _writing, "packed_writing": _packed_writing,
    "library_writing": _library_writing, "own": _own,
}  # fmt: skip


def released(base: Path, kind: str, make_run: Any, work: Any) -> tuple[Path, dict[str, Any]]:
    """Train, export and complete a model; return its `final_model/` and the configuration.

    Args:
        base: an empty folder; the data are in its folder `code`.
        make_run, work: the fixtures.
    """
    root = base / "code"
    root.mkdir(parents=True)
    values = KINDS[kind](root)
    source = make_run(base / "source", values, code_root=str(root))
    assert work(source) == 0, source.log.read_text()
    run = make_run(base / "export", values, kind=RunKind.EXPORT, source_run=str(source.path), code_root=str(root))
    assert work(run) == 0, run.log.read_text()
    folder = run.artifacts / "final_model"
    metrics = json.loads((folder / "metrics.json").read_text()) | {"project": kind, "run": "final-1"}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "README.md").write_text(f"# {kind}\n\nThe card.\n")
    return folder, values
