"""Speech commands: words of vowel-like waveforms by several speakers, a folder a word."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, numbered, write_sound, write_text

RATE, SECONDS, SPEAKERS, TAKES = 4000, 0.4, 16, 10
WORDS = {"go": "gO", "halt": "Al", "left": "Ef", "wait": "aI", "yes": "iE"}
VOWELS = {"A": (700, 1100), "E": (530, 1500), "I": (320, 1750), "O": (420, 800), "a": (620, 1300), "i": (300, 1650)}
NOTE = """\
recordings/<word>/<speaker>_<take>.wav   4 kHz, 16 bit, mono, 0.4 s
The device is for people we have never recorded. listen.py has the front end that runs on the chip: keep it.
"""
CODE = '''\
import wave

import numpy as np
import torch


def read(path):
    with wave.open(str(path)) as f:
        return np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype(np.float32) / 32768


def front_end(samples, size=128, hop=64, bands=24):
    """log energies, (bands, frames)"""
    frames = np.stack([samples[i:i + size] * np.hanning(size) for i in range(0, len(samples) - size + 1, hop)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    edges = np.linspace(0, power.shape[1], bands + 1).astype(int)
    energies = np.stack([power[:, a:max(b, a + 1)].mean(1) for a, b in zip(edges[:-1], edges[1:])])
    return torch.from_numpy(np.log(energies + 1e-4).astype(np.float32))
'''


def lay_out(folder: Path) -> None:
    """Write recordings: harmonics of the speaker's pitch, weighted by formants that glide through the word."""
    draw = draws("commands")
    time = np.arange(int(RATE * SECONDS)) / RATE
    for speaker in range(SPEAKERS):
        pitch, tract = draw.uniform(90, 220), draw.uniform(0.88, 1.14)
        for word, sounds in WORDS.items():
            path = [VOWELS[sound] for sound in sounds if sound in VOWELS]
            for take in range(TAKES):
                glide = np.clip((time - draw.uniform(0.1, 0.2)) / 0.1, 0, 1)
                formants = [(one + (two - one) * glide) * tract for one, two in zip(path[0], path[-1], strict=True)]
                tone = pitch * (1 + 0.04 * draw.normal()) * (1 - 0.15 * time)
                phase = 2 * np.pi * np.cumsum(tone) / RATE
                sound = sum(
                    np.sin(k * phase) * sum(np.exp(-(((k * tone - formant) / 130) ** 2)) for formant in formants)
                    for k in range(1, int(RATE / 2 / pitch / 1.1))
                )
                start, length = draw.uniform(0, 0.08), draw.uniform(0.22, 0.3)
                loud = np.clip(np.minimum(time - start, start + length - time) / 0.03, 0, 1)
                noisy = 0.25 * sound * loud + draw.normal(0, 0.03, len(time))
                write_sound(folder / "recordings" / word / f"sp{speaker:02d}_{take}.wav", noisy, RATE)
    write_text(folder, {"README.txt": NOTE, "listen.py": CODE})


def truth(folder: Path) -> list[Array]:
    """Return the words' numbers in the order of the alphabet."""
    return [numbered([path.parent.name for path in sorted((folder / "recordings").rglob("*.wav"))])]


TASK = Task(
    name="commands",
    field="speech commands, grouped by speaker",
    sentence="Train a small network that tells the five words in recordings/ apart, for speakers it has never heard: "
    "accuracy of at least 0.85. The features are those of listen.py; the network must have fewer than 50,000 weights "
    "and come as ONNX.",
    goal=Goal("accuracy", 0.85),
    lay_out=lay_out,
    truth=truth,
)
