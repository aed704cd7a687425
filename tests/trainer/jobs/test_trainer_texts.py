"""Texts of a Trainer's rows: how they become ids is shown by rows that keep them, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.releases import needs

from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.base import releases
from trainwright.trainer.jobs.export.inputs import real_rows
from trainwright.trainer.jobs.export.trainer_texts import text_columns, trainer_classes, trainer_texts

pytestmark = [pytest.mark.requirement("TRAIN-7", "PRED-1"), pytest.mark.slow, needs(releases.TRAINER)]

SCRIPT = """\
import torch
from datasets import ClassLabel, Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, Trainer, TrainingArguments

made = Tokenizer(models.WordLevel({word: at for at, word in enumerate("[PAD] [UNK] [CLS] a b c".split())}, "[UNK]"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
made.post_processor = processors.TemplateProcessing("[CLS] $A", None, [("[CLS]", 2)])
tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]",
                                    model_input_names=["input_ids", "token_type_ids", "attention_mask"])
rows = [{"id": str(n), "sms": " ".join("abc"[(n + at) % 3] for at in range(1 + n % 7)), "label": n % 2}
        for n in range(24)]


def kept(part):
    found = Dataset.from_list(part).map(lambda row: tokenizer(row["sms"], truncation=True, max_length=6))
    return found.cast_column("label", ClassLabel(names=["ham", "spam"]))


def dropped(part):
    return kept(part).remove_columns("sms")


def changed(part):
    return Dataset.from_list(part).map(lambda row: tokenizer(row["sms"].replace("a", "b")))


class filled(torch.utils.data.Dataset):
    def __init__(self, part):
        self._texts, self.labels = [row["sms"] for row in part], [row["label"] for row in part]
        self.encodings = tokenizer(self._texts, truncation=True, max_length=9, padding="max_length")

    def __len__(self):
        return len(self._texts)

    def __getitem__(self, place):
        return {name: torch.tensor(one[place]) for name, one in self.encodings.items()} | {"labels": self.labels[place]}


def make_trainer(data):
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertConfig(vocab_size=6, **sizes))
    arguments = TrainingArguments("out", report_to=[], use_cpu=True, per_device_train_batch_size=4)
    make = globals()[data]
    return Trainer(model, arguments, train_dataset=make(rows[:8]), eval_dataset=make(rows[8:]),
                   processing_class=tokenizer)
"""


@pytest.fixture
def session_of(tmp_path: Path, open_session: Any) -> Any:
    """`session_of(data)`: of the script's Trainer with data as one of its functions makes them."""

    def opened(data: str) -> Any:
        (tmp_path / f"of_{data}.py").write_text(SCRIPT)
        trainer = {"use": f"of_{data}.py:make_trainer", "args": {"data": data}}
        return open_session({"trainer": trainer, "logging": {"tensorboard": False}})

    return opened


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ("kept", {"column": "sms", "max_length": 6}),
        ("filled", {"column": "texts", "max_length": 9, "length": 9}),
        ("dropped", None),
        ("changed", None),
    ],
)
def test_texts_are_taken_where_they_give_the_very_ids_of_the_rows(
    data: str, wanted: dict[str, Any] | None, session_of: Any, tmp_path: Path
) -> None:
    session = session_of(data)
    found = trainer_texts(session, tmp_path)
    assert (found is not None) == (tmp_path / "tokenizer.json").is_file() == (wanted is not None)
    if found is not None and wanted is not None:
        common = {"padding": 0, "tokenizer": {"name": "library"}}
        assert found == {"kind": "text", "text": wanted | common | {"zeros": ["token_type_ids"]}}


def test_classes_have_the_names_of_the_label_column_where_the_model_has_none(session_of: Any) -> None:
    session = session_of("kept")
    assert trainer_classes(session) == (["ham", "spam"], None)
    session.model.config.id2label = {1: "yes", 0: "no"}
    session.model.config.problem_type = "multi_label_classification"
    assert trainer_classes(session) == (["no", "yes"], "binary")


def test_a_column_that_the_trainer_takes_out_is_in_no_batch_of_an_export(session_of: Any) -> None:
    session = session_of("kept")
    first = next(real_rows(session).batches())
    assert {"input_ids", "attention_mask"} <= first.keys()
    assert "sms" not in first
    fixed = raw_splits_of(session.config, session.context.code_root).samples["validation"][0]
    assert set(fixed) == {"input_ids", "token_type_ids", "attention_mask", "label"}, "as planning fixes its rows"
    assert set(text_columns(session.work.splits.samples["validation"])) == {"id", "sms"}
