"""The user's own data sets, models, losses and trainers: a mistake is named by its cause, a right program runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from case import EITHER, READ, REFUSED, Case, Right
from tables import CLASSES, LOSSES, NUMBER

HEAD = """\
import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

generator = torch.Generator().manual_seed(3)
x = torch.randn(201, 4, generator=generator)
y = (x[:, 0] + 0.3 * torch.randn(201, generator=generator) > 0).long()
number = 40 + 10 * x[:, :1] + torch.randn(201, 1, generator=generator)


def parts(samples):
    return {"train": samples(range(96)), "validation": samples(range(96, 161)), "test": samples(range(161, 201))}


class Rows(torch.utils.data.Dataset):
    def __init__(self, places):
        self.places = list(places)

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        return x[self.places[index]], y[self.places[index]]


class Net(nn.Module):
    def __init__(self, outputs=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, outputs))

    def forward(self, rows):
        return self.layers(rows)


def data():
    return parts(Rows)
"""
TRAINER = """\
import torch
from transformers import BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments


class Rows(torch.utils.data.Dataset):
    def __init__(self, first, last):
        ids = torch.randint(5, 40, (300, 8), generator=torch.Generator().manual_seed(1))
        self.ids, self.labels = ids[first:last], (ids[first:last, 1] > 22).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def made(kind=Trainer, validation=None, callbacks=(), **options):
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=40, max_position_embeddings=16, **config))
    options |= {"num_train_epochs": 1, "report_to": [], "per_device_train_batch_size": 16}
    arguments = TrainingArguments(output_dir="out", **options)
    validation = validation or Rows(100, 160)
    sets = {"train_dataset": Rows(0, 100), "eval_dataset": validation}
    return kind(model, arguments, **sets, compute_metrics=accuracy, callbacks=list(callbacks))
"""


def code(
    name: str,
    source: str,
    body: str,
    *,
    loss: str | None = "cross_entropy",
    may: str = READ,
    said: tuple[str, ...] = (),
    named: tuple[str, ...] = (),
    holds: Callable[[Any], str] | None = None,
    **config: Any,
) -> Case:
    """Return an input of the user's code: `body` defines again what differs from the usual."""
    _, metrics, goal = LOSSES[NUMBER] if loss in {"mse", "mae"} else CLASSES
    whole = {
        "model": {"use": "net.py:Net"},
        "data": {"use": "net.py:data"},
        "loss": loss,
        "metrics": metrics,
        "training": {"epochs": 2},
        "loader": {"batch_size": 32},
        **config,
    }

    def write(folder: Path) -> None:
        (folder / "net.py").write_text(f"{HEAD}\n\n{body}")

    right = Right(may=may, words=said, named=named, holds=holds)
    return Case(
        f"code-{name}", source, write, {key: value for key, value in whole.items() if value is not None}, goal, right
    )


def trainer(name: str, source: str, body: str, *, may: str = READ, said: tuple[str, ...] = ()) -> Case:
    """Return an input of a Trainer of the Transformers library."""

    def write(folder: Path) -> None:
        (folder / "train.py").write_text(f"{TRAINER}\n\n{body}")

    config = {"trainer": {"use": "train.py:make_trainer"}}
    return Case(f"trainer-{name}", source, write, config, CLASSES[2], Right(may=may, words=said))


def forward(body: str, outputs: int = 2) -> str:
    """Return a model whose `forward` has this body; `out` is the usual output."""
    return f"""\
class Net(Net):
    def __init__(self):
        super().__init__({outputs})

    def forward(self, rows):
        out = self.layers(rows)
        {body}
"""


def sample(body: str) -> str:
    """Return a data set whose sample is what the body returns; `row` and `label` are the usual ones."""
    return f"""\
class Rows(Rows):
    def __getitem__(self, index):
        row, label = x[self.places[index]], y[self.places[index]]
        {body}


def data():
    return parts(Rows)
"""


def stream(length: str, base: str = "torch.utils.data.IterableDataset") -> str:
    """Return a data set that is read in its order."""
    return f"""\
class Stream({base}):
    def __init__(self, places):
        self.places = list(places)
{length}
    def __iter__(self):
        for place in self.places:
            yield x[place], y[place]


def data():
    return parts(Stream)
"""


LENGTH = "\n    def __len__(self):\n        return len(self.places)\n"
DROPPED = "class Net(Net):\n    def forward(self, rows):\n        return F.dropout(self.layers(rows), 0.5)\n"
CASES = [
    code("plain", "kind: nothing is odd", ""),
    code("number", "kind: a number to predict", "def data():\n"
          "    return parts(lambda p: torch.utils.data.TensorDataset(x[list(p)], number[list(p)]))\n" +
          forward("return out", 1), loss="mse"),
    code("number-flat", "pytorch/pytorch#16045", "def data():\n"
          "    return parts(lambda p: torch.utils.data.TensorDataset(x[list(p)], number[list(p), 0]))\n" +
          forward("return out", 1), loss="mse"),
    code("number-double", "pytorch/pytorch#19699", "def data():\n"
          "    return parts(lambda p: torch.utils.data.TensorDataset(x[list(p)], number[list(p)].double()))\n" +
          forward("return out", 1), loss="mse", may=EITHER, said=("float64|double|float32",)),
    code("whole-number-targets", "laresbernardo/lares#38", "def data():\n"
          "    return parts(lambda p: torch.utils.data.TensorDataset(x[list(p)], number[list(p)].round().long()))\n" +
          forward("return out", 1), loss="mse", may=EITHER, said=("int64|float|mse",)),
    code("stream", "ray-project/ray#52804", stream(LENGTH)),
    code("stream-mixed-in", "pytorch/pytorch#120139", "class Base(torch.utils.data.IterableDataset):\n    pass\n\n\n" +
          stream(LENGTH, "Base")),
    code("stream-without-length", "huggingface/transformers#8095", stream(""), may=REFUSED, said=("__len__",)),
    code("stream-shorter", "pytorch/pytorch#23587",
          stream("\n    def __len__(self):\n        return len(self.places) + 5\n"), may=REFUSED,
          said=("__len__|length|yields?",)),
    code("changes-in-place", "facebookresearch/pycls#21",
          sample("row += 0.1 * torch.randn(4)\n        return row, label"), may=REFUSED,
          said=("in place|changes|twice|differ", "sample|data set|__getitem__")),
    code("changes-an-array-in-place", "tflearn/tflearn#854", "array = x.numpy().copy()\n\n\n" +
          sample("array[self.places[index]] *= 1.01\n"
          "        return torch.from_numpy(array[self.places[index]]), label"), may=REFUSED,
          said=("in place|changes|twice|differ", "sample|data set|__getitem__")),
    code("draws-in-the-sample", "kind: a copy with noise", sample("return row + 0.01 * torch.randn(4), label")),
    code("none-sample", "kind: a sample that is None", sample("return None if index == 7 else (row, label)"),
          may=REFUSED, said=("None", "7|sample")),
    code("none-in-sample", "kind: a target that is None", sample("return row, None if index == 7 else label"),
          may=REFUSED, said=("None", "7|sample|target")),
    code("names-in-sample", "kind: a file's name in the sample", sample("return row, label, f'{index}.png'"),
          may=EITHER, said=("str|text|name", "sample|value")),
    code("dict-with-names", "kind: a file's name in a dict",
          sample("return {'rows': row, 'labels': label, 'path': f'{index}.png'}"), may=EITHER, said=("path|str",)),
    code("samples-of-other-sizes", "kind: rows that differ in length", sample("return row[: 3 + index % 2], label"),
          may=REFUSED, said=("3|4", "size|shape|stack")),
    code("nan-in-sample", "kind: nan in one sample", sample("return row * (float('nan') if index == 7 else 1), label"),
          may=REFUSED, said=("nan|finite", "7|sample")),
    code("raises-in-sample", "kind: a sample that cannot be read",
          sample("if index == 7:\n            raise OSError('disk')\n        return row, label"), may=REFUSED,
          said=("disk", r"net\.py")),
    code("labels-int32", "jfzhang95/pytorch-video-recognition#71", sample("return row, label.int()"), may=EITHER,
          said=("int32", "int64|long")),
    code("labels-float", "fastai/fastai#1801", sample("return row, label.float()"), may=EITHER, said=("float",
          "int64|long")),
    code("labels-one-hot-whole", "pytorch/pytorch#3670", sample("return row, F.one_hot(label, 2)"), may=EITHER,
          said=("one.hot|argmax|probabilit",)),
    code("labels-one-hot-float", "pytorch/pytorch#1258", sample("return row, F.one_hot(label, 2).float()")),
    code("labels-one-column", "fastai/fastai#1735", sample("return row, label[None]"), may=EITHER,
          said=(r"\(.*1\)|squeeze|column", "target|label")),
    code("labels-bool", "kind: labels of bool", sample("return row, label.bool()"), may=EITHER, said=("bool",
          "int64|long")),
    code("labels-python-int", "kind: labels of int", sample("return row, int(label)")),
    code("labels-numpy", "kind: labels of numpy", sample("return row.numpy(), np.int64(label)")),
    code("labels-from-one", "milesial/Pytorch-UNet#375", sample("return row, label + 1"), may=REFUSED, said=("2",
          "0 to 1|from 0")),
    code("labels-negative", "kind: a label of -1", sample("return row, label - 1"), may=REFUSED, said=("-1",)),
    code("labels-as-words", "kind: labels of str", sample("return row, ['no', 'yes'][label]"), may=REFUSED,
          said=("str|text|word|names", "number|int|class")),
    code("label-first", "kind: (label, row)", sample("return label, row"), may=REFUSED,
          said=("input|row|first|order|shape|dtype|int64",)),
    code("squeeze", "open-edge-platform/anomalib#2883", forward("return out.squeeze()", 1) + "\n\ndef data():\n"
          "    return parts(lambda p: torch.utils.data.TensorDataset(x[list(p)], number[list(p), 0]))\n", loss="mse",
          may=REFUSED, said=("squeeze|batch of one|one row",)),
    code("squeeze-of-classes", "bentrevett/pytorch-sentiment-analysis#17", forward("return out.squeeze()"),
          may=REFUSED, said=("squeeze|batch of one|one row",)),
    code("batch-norm-of-one", "fastai/fastai#970",
          "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
          "        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))\n"
          "\n    def forward(self, rows):\n        return self.layers(rows)\n\n\n"
          "def parts(samples):\n"
          "    found = {'train': samples(range(65)), 'validation': samples(range(96, 161))}\n"
          "    return found | {'test': samples(range(161, 201))}\n",
          may=EITHER, said=("drop_last",)),
    code("ignored-batch", "huggingface/trl#6668", sample("return row, torch.tensor(-100) if index >= 12 else label"),
          may=EITHER, said=("-100", "ignored|count"), loader={"batch_size": 8}),
    code("all-ignored", "bytedance/UniVR#13", sample("return row, torch.tensor(-100)"), may=REFUSED,
          said=("-100|ignored",)),
    code("functional-dropout", "deepchem/deepchem#5120", DROPPED, may=EITHER, said=("training=self.training",),
          named=("training=self.training|training=True",)),
    code("softmax-in-model", "kind: softmax before cross_entropy", forward("return out.softmax(-1)"), may=EITHER,
          said=("softmax",), named=("softmax",)),
    code("outputs-too-few", "kind: one output for two classes", forward("return out", 1), may=REFUSED,
          said=(r"\(.*1\)|1 class|one output|outputs?", "class|label")),
    code("output-of-text", "kind: a model that returns a dict", forward("return {'logits': out}"), may=EITHER,
          said=("returns",)),
    code("output-none", "kind: a forward without return", forward("out = out + 1"), may=REFUSED, said=("None",
          "forward|output")),
    code("detached", "kind: a loss without a gradient", forward("return out.detach()"), may=REFUSED, said=("grad",)),
    code("loader-returned", "kind: a DataLoader where samples are due", "def data():\n"
          "    return {name: torch.utils.data.DataLoader(rows, 8) for name, rows in parts(Rows).items()}\n",
          may=REFUSED, said=("DataLoader",)),
    code("empty-validation", "kind: no row of validation", "def data():\n"
          "    return {'train': Rows(range(96)), 'validation': Rows([]), 'test': Rows(range(161, 201))}\n",
          may=REFUSED, said=("validation", "empty|no row|no sample")),
    code("train-in-validation", "kind: the same rows twice", "def data():\n"
          "    return {'train': Rows(range(96)), 'validation': Rows(range(60, 161)), 'test': Rows(range(161, 201))}\n",
          may=REFUSED, said=("share|both|overlap|splits",)),
    code("shuffled-at-import", "kind: an order drawn without a seed",
          "order = np.random.default_rng().permutation(201).tolist()\n\n\ndef data():\n"
          "    return {'train': Rows(order[:96]), 'validation': Rows(order[96:161]), 'test': Rows(order[161:])}\n",
          may=REFUSED, said=("differ|order|seed|changed|fixed",)),
    code("reads-out-of-root", "kind: a file that is not there",
          "def data():\n    open('absent.csv')\n    return parts(Rows)\n", may=REFUSED, said=(r"absent\.csv",
          r"net\.py")),
    code("own-loss-of-two-rows", "kind: a loss that is no scalar",
          "def loss(output, target):\n    return F.cross_entropy(output, target, reduction='none')\n",
          loss="net.py:loss", may=REFUSED, said=("scalar|one number|mean|reduction|shape",)),
    trainer("plain", "kind: nothing is odd", "def make_trainer():\n    return made()\n"),
    trainer("two-sets", "huggingface/transformers#22530", "def make_trainer():\n"
          "    return made(validation={'a': Rows(100, 160), 'b': Rows(160, 220)})\n"),
    trainer("best-of-a-set", "hiyouga/LlamaFactory#7906", "def make_trainer():\n"
          "    best = {'load_best_model_at_end': True, 'metric_for_best_model': 'eval_a_accuracy'}\n"
          "    best |= {'eval_strategy': 'epoch', 'save_strategy': 'epoch'}\n"
          "    sets = {'a': Rows(100, 160), 'b': Rows(160, 220)}\n"
          "    return made(validation=sets, callbacks=[EarlyStoppingCallback(2)], **best)\n"),
    trainer("old-compute-loss", "huggingface/transformers#34198", "class Weighted(Trainer):\n"
          "    def compute_loss(self, model, inputs, return_outputs=False):\n"
          "        outputs = model(**inputs)\n"
          "        return (outputs.loss, outputs) if return_outputs else outputs.loss\n\n\n"
          "def make_trainer():\n    return made(Weighted)\n", may=EITHER, said=("compute_loss",
          r"num_items_in_batch|\*\*kwargs")),
    trainer("metric-misnamed", "kind: metric_for_best_model that nothing gives", "def make_trainer():\n"
          "    each = {'eval_strategy': 'epoch', 'save_strategy': 'epoch'}\n"
          "    return made(load_best_model_at_end=True, metric_for_best_model='f1', **each)\n",
          may=EITHER, said=("f1", "accuracy|metric")),
]  # fmt: skip
