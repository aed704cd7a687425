"""Trainers as users write them, each with every randomness that a resume could lose: run under our worker, killed."""

import copy
import random

import numpy as np
import torch
from project import data, network
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainingArguments

EPOCHS, BATCH, WORKERS, SAVE_STEPS = 3, 8, 2, 4
WORDS = ["<pad>", "<unk>", "<eos>", *"abcdefghijklmnopqrstuvwxyz", " "]


class Wrapped(torch.nn.Module):
    """The network, called as Trainer calls models."""

    def __init__(self):
        super().__init__()
        self.layers = network()

    def forward(self, x, labels=None):
        """Return loss and logits."""
        logits = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def collate(samples):
    """Return the batch with a random shift, drawn by the collator."""
    shift = 0.01 * random.random()
    return {"x": torch.stack([x for x, _ in samples]) + shift, "labels": torch.stack([y for _, y in samples])}


def common(**others):
    """Return the arguments that all of them share."""
    return {
        "output_dir": "out", "num_train_epochs": EPOCHS, "per_device_train_batch_size": BATCH, "learning_rate": 1e-3,
        "save_strategy": "steps", "save_steps": SAVE_STEPS, "dataloader_num_workers": WORKERS,
        "use_cpu": not torch.cuda.is_available(),
        "report_to": [], "logging_steps": 3, **others,
    }  # fmt: skip


def make_trainer():
    """Return a plain Trainer on augmented images."""
    splits = data(augment=True)
    arguments = TrainingArguments(**common(remove_unused_columns=False))
    return Trainer(
        Wrapped(), arguments, data_collator=collate, train_dataset=splits["train"], eval_dataset=splits["validation"]
    )


def make_sft():
    """Return TRL's trainer for supervised fine-tuning, with a collator that drops tokens."""
    from trl import SFTConfig, SFTTrainer
    from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

    class Dropping(DataCollatorForLanguageModeling):
        """Replaces one token of each row by another, drawn from NumPy."""

        def torch_call(self, examples):
            batch = super().torch_call(examples)
            for row in batch["input_ids"]:
                row[np.random.randint(len(row))] = 1
            return batch

    texts = texts_of(180)
    return SFTTrainer(
        causal_model(), SFTConfig(**common(max_length=16)), train_dataset=rows(text=texts[:120]),
        eval_dataset=rows(text=texts[120:]), processing_class=tokenizer(),
        data_collator=Dropping(pad_token_id=0),
    )  # fmt: skip


def make_dpo():
    """Return TRL's trainer for preferences, against a reference model."""
    from trl import DPOConfig, DPOTrainer

    texts = texts_of(180)
    columns = {"prompt": [t[:4] for t in texts], "chosen": [t[4:8] for t in texts], "rejected": [t[8:] for t in texts]}
    train, test = ({name: part[cut] for name, part in columns.items()} for cut in (slice(120), slice(120, None)))
    model = causal_model()
    return DPOTrainer(
        model, ref_model=copy.deepcopy(model), args=DPOConfig(**common(max_length=16)), train_dataset=rows(**train),
        eval_dataset=rows(**test), processing_class=tokenizer(),
    )  # fmt: skip


def make_grpo(epochs=EPOCHS, num_iterations=2):
    """Return TRL's trainer for rewards: it generates while it trains, and uses what it generated for several steps."""
    from trl import GRPOConfig, GRPOTrainer

    def vowels(completions, **_):
        return [sum(letter in "aeiou" for letter in text) / 4 for text in completions]

    texts = texts_of(36)
    arguments = GRPOConfig(
        **common(
            num_train_epochs=epochs,
            num_generations=4,
            max_completion_length=4,
            gradient_accumulation_steps=2,
            num_iterations=num_iterations,
        )
    )
    return GRPOTrainer(
        causal_model(), reward_funcs=vowels, args=arguments, train_dataset=rows(prompt=[t[:4] for t in texts[:20]]),
        eval_dataset=rows(prompt=[t[:4] for t in texts[20:]]), processing_class=tokenizer(),
    )  # fmt: skip


def make_reward():
    """Return TRL's trainer of a reward model."""
    from transformers import LlamaForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    texts = texts_of(60)
    columns = {"chosen": [t[:6] for t in texts], "rejected": [t[6:] for t in texts]}
    train, test = ({name: part[cut] for name, part in columns.items()} for cut in (slice(40), slice(40, None)))
    model = LlamaForSequenceClassification(small_config(num_labels=1))
    return RewardTrainer(
        model, args=RewardConfig(**common(num_train_epochs=2, max_length=16)), train_dataset=rows(**train),
        eval_dataset=rows(**test), processing_class=tokenizer(),
    )  # fmt: skip


def make_kto():
    """Return TRL's trainer for single answers that were liked or not."""
    from trl import KTOConfig, KTOTrainer

    texts = texts_of(60)
    columns = {
        "prompt": [t[:4] for t in texts], "completion": [t[4:8] for t in texts],
        "label": [number % 2 == 0 for number in range(len(texts))],
    }  # fmt: skip
    train, test = ({name: part[cut] for name, part in columns.items()} for cut in (slice(40), slice(40, None)))
    model = causal_model()
    return KTOTrainer(
        model, ref_model=copy.deepcopy(model), args=KTOConfig(**common(num_train_epochs=2, max_length=16)),
        train_dataset=rows(**train), eval_dataset=rows(**test), processing_class=tokenizer(),
    )  # fmt: skip


def make_rloo():
    """Return TRL's trainer that takes the other answers' mean reward as its baseline."""
    from trl import RLOOConfig, RLOOTrainer

    def vowels(completions, **_):
        return [sum(letter in "aeiou" for letter in text) / 4 for text in completions]

    texts = texts_of(36)
    arguments = RLOOConfig(**common(num_train_epochs=1, num_generations=4, max_completion_length=4, beta=0.0))
    return RLOOTrainer(
        causal_model(), reward_funcs=vowels, args=arguments, train_dataset=rows(prompt=[t[:4] for t in texts[:20]]),
        eval_dataset=rows(prompt=[t[:4] for t in texts[20:]]), processing_class=tokenizer(),
    )  # fmt: skip


def make_lora():
    """Return TRL's trainer for supervised fine-tuning of an adapter on a frozen model."""
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    texts = texts_of(60)
    arguments = SFTConfig(**common(num_train_epochs=2, max_length=16))
    return SFTTrainer(
        causal_model(), arguments, train_dataset=rows(text=texts[:40]), eval_dataset=rows(text=texts[40:]),
        processing_class=tokenizer(),
        peft_config=LoraConfig(r=2, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]),
    )  # fmt: skip


def causal_model():
    """Return a language model that is small, and has dropout."""
    return LlamaForCausalLM(small_config())


def small_config(**others):
    """Return the configuration of all models here."""
    return LlamaConfig(
        vocab_size=len(WORDS), hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=32, pad_token_id=0, eos_token_id=2, bos_token_id=None,
        attention_dropout=0.1, **others,
    )  # fmt: skip


def tokenizer():
    """Return a tokenizer of letters."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    pad, unknown, end = WORDS[:3]
    inner = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token=unknown))
    inner.pre_tokenizer = Split(Regex("."), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token=pad, unk_token=unknown, eos_token=end, padding_side="left"
    )


def texts_of(number):
    """Return texts of twelve letters, the same each time."""
    draw = random.Random(7)
    return ["".join(draw.choice("abcdefgh ") for _ in range(12)) for _ in range(number)]


def rows(**columns):
    """Return a data set of the library's."""
    from datasets import Dataset

    return Dataset.from_dict(columns)
