"""Cases of `make predict` whose inputs or answers are text: tags, answers in a context, choices, what is written.

What is written has no certified figure that its answers could give again: it is compared with plain `transformers` on
the released folder, and the figures are the share of equal texts.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cases import BERT, GIVEN, Answer, Case, Row, accuracy, write_rows

WORDS = ("red", "blue", "small", "large", "old", "new", "cat", "dog", "house", "tree", "runs", "sleeps")
NAMES = ("Anna", "Berlin", "Emil", "Florenz", "Zoë", "Köln")
MOST = 12
"""Tokens that are written."""
T5 = {"model_type": "t5", "d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
GPT = {"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 96}
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LEARNING = {"optimizer": {"learning_rate": 1e-2}, "training": {"epochs": 10}}
MASKED = {"path": "rows.jsonl", "text": "text", "masked": 0.2, "block_size": 32, "tokenizer": "bpe:300"}


def _written(name: str, rows: list[Row], fields: Sequence[str], folder: Path) -> list[Row]:
    """Write rows with their split, and the raw test inputs; return the test rows."""
    for number, row in enumerate(rows):
        row["split"] = ("train", "train", "train", "validation", "test")[number % 5]
    write_rows(folder / "rows.jsonl", rows)
    test = [row for row in rows if row["split"] == "test"]
    write_rows(folder / name, [{field: row[field] for field in fields} for row in test])
    return test


def _tagged(folder: Path) -> tuple[list[str], Sequence[Any]]:
    draw, rows = random.Random(1), []
    for _ in range(200):
        words = draw.choices(WORDS, k=draw.randint(2, 6))
        place = draw.randrange(len(words))
        words[place : place + 1] = draw.choices(NAMES, k=draw.randint(1, 2))
        rows.append({"tokens": words, "tags": [f"I-{'PER' if word in NAMES[::2] else 'LOC'}" if word in NAMES else "O"
                                               for word in words]})  # fmt: skip
    test = _written("raw.jsonl", rows, ["tokens"], folder)
    return [str(folder / "raw.jsonl")], [row["tags"] for row in test]


def _tags(answers: Sequence[Answer], truth: Sequence[Any]) -> float:
    """Return the share of words whose tag is right; of neighbours of one kind the second goes on."""
    pairs = [(word["tag"], tag, before) for answer, tags in zip(answers, truth, strict=True)
             for word, tag, before in zip(answer["words"], tags, ["O", *tags], strict=False)]  # fmt: skip
    right = [said == (tag if tag in {before, "O"} else f"B{tag[1:]}") for said, tag, before in pairs]
    return sum(right) / len(right)


def _questions(folder: Path) -> tuple[list[str], Sequence[Any]]:
    draw, rows = random.Random(1), []
    for number in range(300):
        words = draw.choices(WORDS, k=draw.randint(3, 6))
        words.insert(draw.randrange(len(words)), draw.choice(NAMES))
        context = f"{' '.join(words)} {number}"
        answer = next(word for word in words if word in NAMES)
        rows.append({"question": "who?", "context": context, "answers": answer})
    test = _written("raw.csv", rows, ["question", "context"], folder)
    return [str(folder / "raw.csv")], [row["answers"] for row in test]


def _chosen(folder: Path) -> tuple[list[str], Sequence[Any]]:
    draw, rows = random.Random(1), []
    for number in range(200):
        found, right = draw.sample(WORDS, k=3), draw.randrange(3)
        found[right] = draw.choice(NAMES)
        rows.append({"question": f"the {draw.choice(WORDS)} {number}", "choices": found, "answer": right})
    test = _written("raw.jsonl", rows, ["question", "choices"], folder)
    return [str(folder / "raw.jsonl")], [row["choices"][row["answer"]] for row in test]


def _of(key: str) -> Callable[[Sequence[Answer], Sequence[Any]], float]:
    """Return the share of answers that are the wanted ones."""
    return lambda answers, truth: (
        sum(said[key].strip() == one for said, one in zip(answers, truth, strict=True)) / len(truth)
    )


def _pairs(folder: Path) -> tuple[list[str], Sequence[Any]]:
    draw, rows = random.Random(1), []
    for _ in range(150):
        words = draw.sample(WORDS, k=draw.randint(2, 4))
        rows.append({"text": " ".join(words), "target": " ".join(sorted(words))})
    test = _written("raw.jsonl", rows, ["text"], folder)
    return ["--tokens", str(MOST), str(folder / "raw.jsonl")], [row["text"] for row in test]


def _hidden(folder: Path) -> tuple[list[str], Sequence[Any]]:
    draw = random.Random(1)
    rows = [{"text": " ".join(draw.choices(WORDS, k=draw.randint(4, 9)))} for _ in range(150)]
    test = _written("raw.jsonl", rows, ["text"], folder)[:10]
    texts = [f"{row['text'].rpartition(' ')[0]} [MASK]" for row in test]
    return texts, texts


def _chats(folder: Path) -> tuple[list[str], Sequence[Any]]:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made: Any = Tokenizer(models.BPE({piece: place for place, piece in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|pad|>")  # noqa: S106
    tokenizer.chat_template = CHATML
    tokenizer.save_pretrained(folder / "tokenizer")
    draw, rows = random.Random(1), []
    for number in range(60):
        word, later = draw.choice(WORDS), draw.choice(WORDS)
        said = [f"{word} {number}?", f"{word}!", f"{later}?", f"{later}!"]
        messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(said)]
        rows.append({"messages": messages[: 2 + 2 * (number % 2)]})
    asked = [row["messages"][:-1] for row in rows[::5]]
    write_rows(folder / "rows.jsonl", rows)
    (folder / "raw.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    return ["--temperature", "0", "--tokens", str(MOST), str(folder / "raw.jsonl")], asked


def _trainer(script: str) -> Callable[[Path], tuple[list[str], Sequence[Any]]]:
    """Return what writes a user's script with a Trainer, its tokenizer and its texts."""

    def write(folder: Path) -> tuple[list[str], Sequence[Any]]:
        from tokenizers import Tokenizer, models, pre_tokenizers, processors
        from transformers import PreTrainedTokenizerFast

        marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
        made: Any = Tokenizer(models.WordLevel({word: at for at, word in enumerate([*marks, *WORDS])}, "[UNK]"))
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
        kept = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")  # noqa: S106
        kept.save_pretrained(folder / "tokenizer")
        draw, rows = random.Random(1), []
        for _ in range(240):
            words = draw.choices(WORDS[:10], k=draw.randint(3, 9))
            rows.append({"sms": " ".join(words), "label": int(words[1] in WORDS[:5])})
        write_rows(folder / "rows.jsonl", rows)
        (folder / "train.py").write_text(TRAINER + script)
        return [str(folder / "raw.jsonl")], [("ham", "spam")[row["label"]] for row in _test_rows(folder, rows)]

    return write


def _test_rows(folder: Path, rows: list[Row]) -> list[Row]:
    test = rows[200:]
    write_rows(folder / "raw.jsonl", [{"sms": row["sms"]} for row in test])
    return test


TRAINER = """\
import json
from pathlib import Path

import torch
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

HERE = Path(__file__).parent
rows = [json.loads(line) for line in (HERE / "rows.jsonl").open()]
tokenizer = AutoTokenizer.from_pretrained(HERE / "tokenizer")
names = {0: "ham", 1: "spam"}


def accuracy(found):
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def make_trainer():
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=len(tokenizer), id2label=names, label2id={"ham": 0, "spam": 1}, **sizes))
    arguments = TrainingArguments(
        "out", num_train_epochs=2, per_device_train_batch_size=20, learning_rate=0.01, report_to=[], use_cpu=True)
    train, validation, test = (make(rows[cut]) for cut in (slice(160), slice(160, 200), slice(200, None)))
    trainer = Trainer(model, arguments, train_dataset=train, eval_dataset=validation, processing_class=tokenizer,
                      compute_metrics=accuracy)
    return trainer, test


"""
KEPT = """\
from datasets import Dataset


def make(part):
    return Dataset.from_list(part).map(lambda row: tokenizer(row["sms"], truncation=True, max_length=8))
"""
FILLED = """\
class make(torch.utils.data.Dataset):
    def __init__(self, part):
        self.sms, self.labels = [row["sms"] for row in part], [row["label"] for row in part]
        self.encodings = tokenizer(self.sms, truncation=True, max_length=9, padding="max_length")

    def __len__(self):
        return len(self.sms)

    def __getitem__(self, place):
        row = {name: torch.tensor(values[place]) for name, values in self.encodings.items()}
        return row | {"labels": torch.tensor(self.labels[place])}
"""


def _loaded(kind: str, folder: Path) -> tuple[Any, Any]:
    """Return model and tokenizer as whoever has the folder and plain transformers reads them."""
    import transformers

    return (
        getattr(transformers, kind).from_pretrained(folder, local_files_only=True).eval(),
        transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True),
    )


def _rewritten_by_library(folder: Path, texts: Sequence[Any]) -> list[str]:
    model, tokenizer = _loaded("AutoModelForSeq2SeqLM", folder)
    end = tokenizer.sep_token_id
    found = [
        model.generate(**tokenizer(text, return_tensors="pt", return_token_type_ids=False), do_sample=False,
                       num_beams=1, max_new_tokens=MOST, eos_token_id=end)[0]
        for text in texts
    ]  # fmt: skip
    return [tokenizer.decode(one, skip_special_tokens=True).strip() for one in found]


def _filled_by_library(folder: Path, texts: Sequence[Any]) -> list[str]:
    model, tokenizer = _loaded("AutoModelForMaskedLM", folder)
    found = []
    for text in texts:
        inputs = tokenizer(text.replace(" [MASK]", "[MASK]"), add_special_tokens=False, return_tensors="pt",
                           return_token_type_ids=False)  # fmt: skip
        begin = inputs["input_ids"].new_tensor([[tokenizer.sep_token_id]])
        scores = model(input_ids=begin.new_tensor([[*begin[0], *inputs["input_ids"][0]]])).logits[0, -1]
        word = tokenizer.decode([int(scores.argmax())], skip_special_tokens=True)
        found.append(text.replace("[MASK]", word.strip() or word).strip())
    return found


def _answered_by_library(folder: Path, chats: Sequence[Any]) -> list[str]:
    model, tokenizer = _loaded("AutoModelForCausalLM", folder)
    found = []
    for messages in chats:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        tokens = tokenizer(text, add_special_tokens=False, return_tensors="pt", return_token_type_ids=False)
        whole = model.generate(**tokens, do_sample=False, max_new_tokens=MOST, pad_token_id=tokenizer.pad_token_id,
                               eos_token_id=tokenizer.eos_token_id)[0]  # fmt: skip
        found.append(tokenizer.decode(whole[tokens["input_ids"].shape[1] :], skip_special_tokens=True).strip())
    return found


def _library(config: dict[str, Any]) -> dict[str, Any]:
    return {"use": "transformers", "args": {"config": config}}


def _rows(use: str, tokenizer: str, **args: Any) -> dict[str, Any]:
    return {"use": use, "args": {"path": "rows.jsonl", "tokenizer": tokenizer, **args}, "split": GIVEN}


NEXT = {"loss": "next_token", "loader": {"batch_size": 8}}
HANDED = {"trainer": {"use": "train.py:make_trainer"}, "logging": {"tensorboard": False}}
LANGUAGE = [
    Case("a Trainer's texts, kept", _trainer(KEPT), {}, "accuracy", accuracy, further=HANDED),
    Case("a Trainer's texts, filled up", _trainer(FILLED), {}, "accuracy", accuracy, further=HANDED),
    Case("words with tags", _tagged, _rows("token_classification", "bpe:300"), "accuracy", _tags, BERT, LEARNING),
    Case("words with tags, in bytes", _tagged, _rows("token_classification", "bytes"), "accuracy", _tags, BERT),
    Case("questions with answers", _questions, _rows("question_answering", "bpe:400", max_length=48, stride=8),
         "exact_match", _of("answer"), BERT, LEARNING),
    Case("choices", _chosen, _rows("multiple_choice", "characters"), "accuracy", _of("choice"), BERT, LEARNING),
    Case("texts from texts", _pairs, _rows("seq2seq", "bpe:300"), "perplexity", _of("text"), _library(T5),
         NEXT | LEARNING, _rewritten_by_library),
    Case("hidden words", _hidden, {"use": "jsonl", "args": MASKED}, "perplexity", _of("text"), BERT,
         {"loss": "masked_token"} | LEARNING, _filled_by_library),
    Case("conversations", _chats, {"use": "chat", "args": {"path": "rows.jsonl", "tokenizer": "tokenizer",
         "block_size": 64}}, "perplexity", _of("text"), _library(GPT), NEXT | LEARNING, _answered_by_library),
]  # fmt: skip
