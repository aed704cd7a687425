"""Soft prompts: learned vectors before the text, or before the keys and values of every layer; no weight is changed.

peft wraps the model for them; `Prompted` gives back outputs for the text alone, so that objectives, metrics and
exports see what they see of any other model.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.models.adapters.section import AdapterSection, new_head
from trainwright.trainer.models.tasks import longest_input

if TYPE_CHECKING:
    from torch import nn

Tokens = Annotated[int, Field(ge=1, le=2**12)]
OTHERS = "Set adapter.name lora or ia3, which work for any model with linear layers."


class SoftPromptSection(AdapterSection):
    """Learned vectors that stand as tokens before every text."""

    tokens: Tokens = 20
    """Learned vectors; they count against the longest text that the model takes."""

    def require_texts(self, model: nn.Module, longest: int, *, packed: bool) -> None:
        """Check that the learned vectors stand before every text, with room beside it. Raises ConfigurationError."""
        if packed:
            raise ConfigurationError(
                f"`adapter.name` = {self.name}: data.args.packed puts several texts into a row, and learned vectors "
                "would stand before the first alone.",
                remedy=f"Set data.args.packed false. {OTHERS}",
                document="configs/adapters.md",
            )
        limit = longest_input(getattr(model, "config", None))
        if limit is None or longest + self.tokens <= limit:
            return
        raise ConfigurationError(
            f"`adapter.tokens` = {self.tokens} stand before texts of up to {longest} tokens, and the model takes "
            f"{limit} in all.",
            remedy=f"Set data.args.max_length (block_size) to at most {limit - self.tokens}, or fewer adapter.tokens.",
            document="configs/adapters.md",
        )

    def _adapted(self, model: nn.Module) -> nn.Module:
        from peft import get_peft_model

        from trainwright.trainer.models.adapters.prompted import Prompted
        from trainwright.trainer.models.adapters.task_types import task_type
        from trainwright.trainer.optimization.parameters import matching

        task = task_type(model)
        if task is None:
            raise ConfigurationError(
                f"`adapter.name` = {self.name}: a {type(model).__name__} is no language model that peft can prompt.",
                remedy=f"Use model transformers for a classification of texts or tokens, question answering or a "
                f"language model. {OTHERS}",
                document="configs/adapters.md",
            )
        parameters = [name for name, _ in model.named_parameters()]
        also = matching(parameters, self.train_also, "adapter.train_also") if self.train_also else new_head(model)
        self._require(model, task)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # peft asks the library by a former name
                inner: Any = get_peft_model(model, self._config(task))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise self._misfit(model, error) from error
        ends = {f".{name}" for name in also}
        for name, parameter in inner.named_parameters():
            plain = name.replace(".modules_to_save.default", "")
            is_original = ".original_module." in name
            is_head = not is_original and any(plain.endswith(end) for end in ends)
            parameter.requires_grad_(name.startswith("prompt_encoder.") or is_head)
        return Prompted(inner, virtual=self._before(task))

    def _config(self, task: str) -> Any:
        """Return peft's configuration."""
        raise NotImplementedError

    def _before(self, task: str) -> int:
        """Return the outputs that a model of the task gives for the learned vectors."""
        raise NotImplementedError

    def _require(self, model: nn.Module, task: str) -> None:
        """Refuse a model that would give wrong outputs. Raises ConfigurationError."""

    def _try(self, adapted: nn.Module) -> None:
        """Call it on two tokens: peft knows only by then which models take what it adds."""
        import torch

        from trainwright.trainer.base import seeding

        prompted: Any = adapted
        model = prompted.inner.get_base_model()
        device = next(model.parameters()).device
        ids = torch.zeros(1, 2, dtype=torch.long, device=device)
        given = {"decoder_input_ids": ids} if prompted.inner.active_peft_config.task_type == "SEQ_2_SEQ_LM" else {}
        was_training = prompted.training
        try:
            with torch.no_grad(), seeding.preserved():
                prompted.eval()(ids, attention_mask=torch.ones_like(ids), **given)
        except (ValueError, TypeError, RuntimeError, AttributeError, IndexError) as error:
            raise self._misfit(model, error) from error
        finally:
            prompted.train(was_training)

    def _misfit(self, model: nn.Module, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"`adapter.name` = {self.name} does not work with {type(model).__name__}: {str(error)[:200]}",
            remedy=OTHERS,
            document="configs/adapters.md",
        )


class PromptSection(SoftPromptSection):
    """Prompt tuning (Lester et al. 2021, arXiv:2104.08691): learned vectors before the text's embeddings."""

    name: Literal["prompt"] = "prompt"
    init: Literal["vocabulary", "random"] = "vocabulary"
    """First vectors: those of tokens drawn from the vocabulary, or random ones."""

    def _config(self, task: str) -> Any:
        from peft import PromptTuningConfig, PromptTuningInit

        name = {"vocabulary": "SAMPLE_VOCAB", "random": "RANDOM"}[self.init]
        start = getattr(PromptTuningInit, name, None)
        if start is None:
            raise releases.needed(f"adapter.init {self.init}", releases.VOCABULARY, "Set adapter.init random")
        return PromptTuningConfig(
            task_type=task,
            num_virtual_tokens=self.tokens,
            prompt_tuning_init=start,
            num_transformer_submodules=1,
        )

    def _before(self, task: str) -> int:
        return self.tokens if task in {"CAUSAL_LM", "TOKEN_CLS", "QUESTION_ANS"} else 0

    def _require(self, model: nn.Module, task: str) -> None:
        if task == "SEQ_CLS" and hasattr(model, "score"):
            raise ConfigurationError(
                f"`adapter.name` = prompt: a {type(model).__name__} reads a text's last token, which it cannot find "
                "behind learned vectors, so its outputs would depend on the padding.",
                remedy=f"Use a model that reads the first token (bert, roberta). {OTHERS}",
                document="configs/adapters.md",
            )


class PrefixSection(SoftPromptSection):
    """Prefix tuning (Li and Liang 2021, arXiv:2101.00190): learned keys and values in every layer."""

    name: Literal["prefix"] = "prefix"
    projection: bool = False
    """Learn them through a small network, which is left out of what is saved; steadier at high rates."""

    def _config(self, task: str) -> Any:
        from peft import PrefixTuningConfig

        return PrefixTuningConfig(
            task_type=task,
            num_virtual_tokens=self.tokens,
            prefix_projection=self.projection,
        )

    def _before(self, task: str) -> int:  # noqa: ARG002 - keys and values give no outputs
        return 0
