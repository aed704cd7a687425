"""Tasks of models of the Transformers library: the class of each, the data that fit it, and its sizes by them.

A new task is one line in TASKS, and a source of data that names it (`Splits.task`). Free of torch: the server reads
the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.trainer.data.splits import Splits
    from trainwright.trainer.models.arguments import Surroundings

Given = Mapping[str, Any] | None
"""What the configuration says of a model with random weights; None for others."""


@dataclass(frozen=True)
class ModelTask:
    """A task, and the library's model for it."""

    name: str
    auto: str
    """Class of the library that makes the model."""
    data: str
    """What makes samples for it, in words."""
    fit: Callable[[Any, Surroundings, Given], None]
    """Sets the sizes of a model's configuration that the data decide. Raises ValueError where it does not fit them."""
    kinds: tuple[str, ...] = ("classification",)
    """Of losses that it is trained with (`Loss.task`)."""
    loss: str = "cross_entropy"
    """The usual loss; of language the only one."""
    of_data: bool = True
    """Whether its samples are of a form of their own, which only data that name the task have."""
    by_classes: bool = True
    """Whether the head has outputs by the data, so that a saved one of another size is made anew."""


def classes(config: Any, around: Surroundings, given: Given) -> None:  # noqa: ARG001 - of the form of `fit`
    """Set the number of a head's outputs, and the names of the classes."""
    outputs = around.outputs
    names = around.splits.class_names or [str(label) for label in range(outputs)]
    config.num_labels = outputs
    config.id2label = dict(enumerate(names))
    config.label2id = {name: label for label, name in enumerate(names)}
    config.problem_type = {"regression": "regression"}.get(around.loss.task or "", "single_label_classification")


def outputs_alone(config: Any, around: Surroundings, given: Given) -> None:  # noqa: ARG001
    """Set the number of a head's outputs: of a span's two ends, or of a choice."""
    config.num_labels = around.outputs


def vocabulary(config: Any, around: Surroundings, given: Given) -> None:
    """Leave the outputs: they are the vocabulary's."""


def decoder(config: Any, around: Surroundings, given: Given) -> None:
    """Let a decoder begin as in the data. Raises ValueError where the model was trained to begin with another token."""
    start = around.splits.text.tokenizer.get("decoder_start") if around.splits.text is not None else None
    if start is None:
        return
    known = getattr(config, "decoder_start_token_id", None)
    if given is not None and "decoder_start_token_id" not in given:
        known = None
    if known is not None and known != start:
        raise ValueError(
            f"its decoder begins with token {known}, and the data with {start}; set data.args.decoder_start {known}"
        )
    config.decoder_start_token_id = start


def pictures(config: Any, around: Surroundings, given: Given) -> None:
    """Set the classes, and of random weights the size and channels of the pictures.

    Raises:
        ValueError: the model was made for pictures of another size, or its patches are larger than these.
    """
    from trainwright.trainer.data.first_look import first_sample

    classes(config, around, given)
    channels, height, width = first_sample(around.splits.samples["train"])[0].shape
    size = height if height == width else [height, width]
    patch = getattr(config, "patch_size", None)
    if given is not None:
        for key, value in (("image_size", size), ("num_channels", channels)):
            if hasattr(config, key) and key not in given:
                setattr(config, key, value)
    wanted, known = getattr(config, "image_size", None), getattr(config, "num_channels", channels)
    if wanted is not None and wanted not in (size, [height, width], (height, width)):
        raise ValueError(
            f"it takes pictures of {wanted} pixels, and the data has {height} x {width}; set data.args.size"
        )
    if known != channels:
        raise ValueError(f"it takes pictures of {known} channels, and the data has {channels}; set data.args.channels")
    if isinstance(patch, int) and patch > min(height, width):
        raise ValueError(f"its patch_size {patch} is larger than the pictures of {height} x {width}; lower it")


TASKS: dict[str, ModelTask] = {
    task.name: task
    for task in (
        ModelTask(
            "sequence_classification",
            "AutoModelForSequenceClassification",
            "a table with text and target",
            classes,
            kinds=("classification", "binary", "regression"),
            of_data=False,
        ),
        ModelTask(
            "causal_lm",
            "AutoModelForCausalLM",
            "text, chat, or a table with text and no target",
            vocabulary,
            kinds=("language_model",),
            loss="next_token",
            of_data=False,
            by_classes=False,
        ),
        ModelTask(
            "masked_lm",
            "AutoModelForMaskedLM",
            "text, or a table with text and no target, with masked 0.15",
            vocabulary,
            kinds=("language_model",),
            loss="masked_token",
            by_classes=False,
        ),
        ModelTask(
            "seq2seq_lm",
            "AutoModelForSeq2SeqLM",
            "data seq2seq",
            decoder,
            kinds=("language_model",),
            loss="next_token",
            by_classes=False,
        ),
        ModelTask("token_classification", "AutoModelForTokenClassification", "data token_classification", classes),
        ModelTask("question_answering", "AutoModelForQuestionAnswering", "data question_answering", outputs_alone),
        ModelTask("multiple_choice", "AutoModelForMultipleChoice", "data multiple_choice", outputs_alone),
        ModelTask(
            "image_classification",
            "AutoModelForImageClassification",
            "data images",
            pictures,
            kinds=("classification", "binary", "regression"),
            of_data=False,
        ),
    )
}


def task_of(given: str | None, around: Surroundings) -> ModelTask:
    """Return the task that the configuration names, else the one that the data are made for, else the loss's.

    Raises:
        ValueError: the data, or the loss, are for another task.
    """
    splits, loss = around.splits, around.loss
    found = splits.task or _by_form(around)
    named = TASKS[given or found]
    if named.name != found and (splits.task is not None or splits.text is not None):
        raise ValueError(
            f"task {named.name} needs {named.data}, and the data are made for {found}: leave model.args.task out, or "
            "change data"
        )
    other = loss.task is not None and loss.task not in named.kinds
    if other or (loss.task == "language_model" and loss.name != named.loss):
        raise ValueError(f"task {named.name} is trained with loss {named.loss}, not {loss.name}; set loss {named.loss}")
    return named


def _by_form(around: Surroundings) -> str:
    """Return the task of data that name none: by the loss, and by whether inputs are pictures."""
    if around.loss.task == "language_model":
        return "causal_lm"
    if around.splits.text is None:
        from trainwright.trainer.data.first_look import first_sample

        sample = first_sample(around.splits.samples["train"])
        first = sample[0] if isinstance(sample, tuple | list) else None
        if first is not None and len(getattr(first, "shape", ())) == 3 and not str(first.dtype).count("int"):
            return "image_classification"
    return "sequence_classification"


OFFSET_POSITIONS = frozenset({
    "camembert", "data2vec-text", "esm", "ibert", "layoutlmv3", "lilt", "longformer", "luke", "markuplm", "mpnet",
    "roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "xmod",
})  # fmt: skip
"""Kinds of models that number positions from the padding's token on: RoBERTa's 514 positions take 512 tokens."""


def longest_input(config: Any) -> int | None:
    """Return how many tokens a model of the library takes at most; None where nothing bounds them."""
    most = getattr(config, "max_position_embeddings", None)
    if most is None or config.model_type not in OFFSET_POSITIONS:
        return most
    padding = getattr(config, "pad_token_id", None)
    return int(most) - 1 - (1 if padding is None else int(padding))


def require_tokens(config: Any, splits: Splits) -> None:
    """Refuse a model that would fail at the first long text or rare token; give it the padding of the data's tokens.

    Raises:
        ValueError: its vocabulary, or its longest input, is smaller than the data's.
    """
    if splits.text is None:
        return
    if getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = splits.text.padding
    size = getattr(config, "vocab_size", None)
    if size is not None and size < splits.text.vocabulary_size:
        raise ValueError(
            f"its vocabulary of {size} is smaller than the tokenizer's of {splits.text.vocabulary_size}; set "
            "data.args.tokenizer to the folder of the model's tokenizer"
        )
    longest, limit = splits.text.longest, longest_input(config)
    if limit is not None and longest > limit:
        raise ValueError(
            f"it takes at most {limit} tokens, and the data has {longest}; lower data.args.max_length or block_size"
        )
