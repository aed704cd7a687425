"""The same work in Hugging Face Trainer and in Lightning: killed within an epoch, resumed from their own checkpoint.

`python peers.py huggingface|lightning KILLS SEED` prints one JSON object: for static and for augmented data, in how
many of the kills the resumed run ended with the weights of the uninterrupted one.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from project import data, network

EPOCHS, BATCH, SAVE_STEPS = 3, 8, 4
STEPS = EPOCHS * 15


def weights_digest(model: torch.nn.Module) -> str:
    """Return a digest of every tensor of the model, bit for bit."""
    parts = [f"{name}{value.dtype}".encode() + value.numpy().tobytes() for name, value in model.state_dict().items()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def huggingface(folder: Path, *, augment: bool, kill_at: int | None, resume: bool) -> str:
    """Train with transformers.Trainer; return the digest of the final weights."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Killer(TrainerCallback):
        def on_step_begin(self, _: Any, state: Any, *__: Any, **___: Any) -> None:
            if state.global_step + 1 == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network()

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            logits = self.layers(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    def collate(samples: list[Any]) -> dict[str, Any]:
        return {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}

    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, learning_rate=1e-3,
        save_strategy="steps", save_steps=SAVE_STEPS, save_total_limit=2, seed=42, data_seed=42, use_cpu=True,
        report_to=[], disable_tqdm=True, logging_strategy="no", remove_unused_columns=False,
    )  # fmt: skip
    torch.manual_seed(42)
    trainer = Trainer(
        Wrapped(), arguments, data_collator=collate, train_dataset=data(augment)["train"], callbacks=[Killer()]
    )
    trainer.train(resume_from_checkpoint=True if resume else None)
    return weights_digest(trainer.model.layers)


def lightning(folder: Path, *, augment: bool, kill_at: int | None, resume: bool) -> str:
    """Train with lightning.pytorch.Trainer; return the digest of the final weights."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import Callback, ModelCheckpoint

    class Killer(Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step + 1 == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = network()

        def training_step(self, batch: Any, _: int) -> Any:
            x, y = batch
            return torch.nn.functional.cross_entropy(self.layers(x), y)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    pl.seed_everything(42, workers=True, verbose=False)
    module = Module()
    saver = ModelCheckpoint(folder, every_n_train_steps=SAVE_STEPS, save_last=True, save_top_k=-1)
    trainer = pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[saver, Killer()], deterministic=True, default_root_dir=folder,
    )  # fmt: skip
    loader = torch.utils.data.DataLoader(data(augment)["train"], batch_size=BATCH, shuffle=True)
    trainer.fit(module, loader, ckpt_path=str(folder / "last.ckpt") if resume else None, weights_only=False)
    return weights_digest(module.layers)


def in_a_fork(call: Callable[[], str]) -> tuple[int, str]:
    """Call in a forked process; return how it ended (negative: a signal) and what it gave."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            os.write(writing, call().encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        given = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), given


def kills_survived(train: Callable[..., str], *, augment: bool, kills: int, draw: random.Random) -> dict[str, Any]:
    """Kill so many runs, each at a step drawn at random within an epoch, and resume them."""
    identical, repeatable = 0, None
    with tempfile.TemporaryDirectory() as place:

        def run(name: str, kill_at: int | None = None, *, resume: bool = False) -> tuple[int, str]:
            folder = Path(place, name)
            return in_a_fork(lambda: train(folder, augment=augment, kill_at=kill_at, resume=resume))

        (code, whole), (_, again) = run("whole"), run("again")
        if code:
            raise RuntimeError(f"{train.__name__}: the uninterrupted run ended with {code}")
        repeatable = whole == again
        for number in range(kills):
            step = draw.choice([n for n in range(SAVE_STEPS + 2, STEPS) if n % 15 > 1])
            code, _ = run(f"killed{number}", step)
            if code != -signal.SIGKILL:
                raise RuntimeError(f"{train.__name__}: was to be killed at step {step} and ended with {code}")
            code, ended = run(f"killed{number}", resume=True)
            if code:
                raise RuntimeError(f"{train.__name__}: the resumed run ended with {code}")
            identical += ended == whole
    return {"kills": kills, "identical": identical, "same_seed_repeats": repeatable}


def _import_before_forking(name: str) -> None:
    """Import once what every run needs; a fork then starts at once."""
    for module in ("torch._dynamo", {"huggingface": "transformers.trainer", "lightning": "lightning.pytorch"}[name]):
        importlib.import_module(module)


def main() -> None:
    """Print the figures of one framework."""
    name, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    train = {"huggingface": huggingface, "lightning": lightning}[name]
    _import_before_forking(name)
    draw = random.Random(seed)
    result = {
        kind: kills_survived(train, augment=kind == "augmented", kills=kills, draw=draw)
        for kind in ("static", "augmented")
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
