"""Networks of the sound kinds: shapes that people train, tiny, from configurations, with the starts that are usual."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.models.gpt import GPT
from trainwright.trainer.models.unet import UNet

WIDTH, WORDS = 32, 64


def _sizes(words: int, depth: int, width: int = WIDTH) -> dict[str, Any]:
    return {
        "vocab_size": words, "hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": 4,
        "intermediate_size": 2 * width,
    }  # fmt: skip


class Library(nn.Module):
    """A network of the Transformers library that answers with its logits."""

    def __init__(self, kind: str, words: int = 200, depth: int = 2, outputs: int = 2) -> None:
        super().__init__()
        import transformers as library

        if kind in {"Bert", "Roberta", "Electra"}:
            config = getattr(library, f"{kind}Config")(
                **_sizes(words, depth), num_labels=outputs, max_position_embeddings=64, embedding_size=WIDTH
            )
            self.inner = getattr(library, f"{kind}ForSequenceClassification")(config)
        elif kind == "DistilBert":
            config = library.DistilBertConfig(
                vocab_size=words, dim=WIDTH, n_layers=depth, n_heads=4, hidden_dim=64, num_labels=outputs
            )
            self.inner = library.DistilBertForSequenceClassification(config)
        elif kind == "Llama":
            self.inner = library.LlamaForCausalLM(library.LlamaConfig(**_sizes(words, depth), num_key_value_heads=2))
        elif kind == "GPT2":
            config = library.GPT2Config(vocab_size=words, n_embd=WIDTH, n_layer=depth, n_head=4, n_positions=64)
            self.inner = library.GPT2LMHeadModel(config)
        else:
            config = library.ViTConfig(
                **_sizes(1, depth), image_size=8, patch_size=2, num_channels=1, num_labels=outputs
            )
            self.inner = library.ViTForImageClassification(config)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        out: Tensor = self.inner(x).logits
        return out


class Masks(UNet):
    """Two classes for each pixel of one channel."""

    def __init__(self, norm: str = "batch") -> None:
        super().__init__((1, 16, 16), 2, depth=2, width=8, norm=norm)


class Gpt(GPT):
    """The language model that Trainwright has."""

    def __init__(self, words: int = WORDS) -> None:
        super().__init__((24,), words, layers=2, width=WIDTH)


class T5(nn.Module):
    """An encoder and a decoder: the decoder's words follow those of the encoder in one row."""

    def __init__(self, words: int = WORDS, depth: int = 2, length: int = 8) -> None:
        super().__init__()
        from transformers import T5Config, T5ForConditionalGeneration

        sizes = {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": depth, "num_heads": 4}
        self.inner = T5ForConditionalGeneration(T5Config(vocab_size=words, decoder_start_token_id=0, **sizes))
        self.length = length

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, time, words) of the decoder."""
        source, given = x[:, : self.length], x[:, self.length :]
        out: Tensor = self.inner(input_ids=source, decoder_input_ids=given).logits
        return out


class Remembering(nn.Module):
    """An LSTM or a GRU over (batch, time) numbers, or over word numbers."""

    def __init__(self, kind: str = "LSTM", words: int = 0, outputs: int = 2, depth: int = 1) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH) if words else None
        self.cells = getattr(nn, kind)(WIDTH if words else 1, WIDTH, depth, batch_first=True)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of the last time, or of all where words are read."""
        states, _ = self.cells(x[..., None] if self.embedding is None else self.embedding(x))
        out: Tensor = self.head(states[:, -1] if self.embedding is None else states)
        return out


class DLinear(nn.Module):
    """Trend and remainder of a series, each forecast by one layer that begins at zero, or as a mean."""

    def __init__(self, length: int = 48, horizon: int = 12, start: str = "zero") -> None:
        super().__init__()
        self.trend, self.rest = nn.Linear(length, horizon), nn.Linear(length, horizon)
        for layer in (self.trend, self.rest):
            if start != "usual":
                nn.init.constant_(layer.weight, 0.0 if start == "zero" else 1 / length)
            if start == "zero":
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length) to (batch, horizon)."""
        trend = nn.functional.avg_pool1d(nn.functional.pad(x[:, None], (6, 6), mode="replicate"), 13, 1)[:, 0]
        out: Tensor = self.trend(trend) + self.rest(x - trend)
        return out


class GatedBlock(nn.Module):
    """A residual block whose branch is multiplied by a gate."""

    def __init__(self, width: int, gate: float, shape: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.branch = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.gate = nn.Parameter(torch.full((1 if shape == "scalar" else width,), gate))
        if shape == "last":
            nn.init.zeros_(self.branch[2].weight)
            nn.init.zeros_(self.branch[2].bias)
            self.gate = nn.Parameter(torch.ones(1), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x and what the branch adds."""
        out: Tensor = x + self.gate * self.branch(self.norm(x))
        return out


class Gated(nn.Module):
    """ResMLP: blocks whose gates (`scalar`, `channel`), or whose last layers (`last`), begin at zero or near it."""

    def __init__(
        self, inputs: int = 64, outputs: int = 10, *, depth: int = 4, gate: float = 0.0, shape: str = "scalar",
        zero_head: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(inputs, WIDTH))
        self.blocks = nn.Sequential(*[GatedBlock(WIDTH, gate, shape) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, outputs))
        if zero_head:
            nn.init.zeros_(self.head[1].weight)
            nn.init.zeros_(self.head[1].bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        out: Tensor = self.head(self.blocks(self.stem(x)))
        return out


class Normed(nn.Module):
    """Convolutions with their biases before batch norms, as many write them."""

    def __init__(self, outputs: int = 10, depth: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for number in range(depth):
            layers += [nn.Conv2d(16 if number else 1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        out: Tensor = self.layers(x)
        return out


class Graphs(nn.Module):
    """Two rounds of messages over graphs in rows of (nodes, 1 + nodes): a feature, then whom a node hears."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of (batch, nodes, 1 + nodes)."""
        features, heard = x[..., :1], x[..., 1:]
        share = heard / heard.sum(-1, keepdim=True).clamp(min=1.0)
        states = torch.relu(self.first(torch.cat([features, share @ features], -1)))
        out: Tensor = self.head(torch.relu(self.second(share @ states + states)).mean(1))
        return out


class Factors(nn.Module):
    """Ratings by factors of users and things, which begin small."""

    def __init__(self, users: int = 60, things: int = 40, start: float = 0.01) -> None:
        super().__init__()
        self.users, self.things = nn.Embedding(users, 8), nn.Embedding(things, 8)
        self.of_user, self.of_thing = nn.Embedding(users, 1), nn.Embedding(things, 1)
        self.mean = nn.Parameter(torch.zeros(1))
        for factors in (self.users, self.things, self.of_user, self.of_thing):
            nn.init.normal_(factors.weight, std=start)

    def forward(self, x: Tensor) -> Tensor:
        """Map pairs (batch, 2) to ratings (batch,)."""
        user, thing = x.unbind(1)
        alone = self.of_user(user) + self.of_thing(thing)
        out: Tensor = (self.users(user) * self.things(thing)).sum(1) + alone[:, 0] + self.mean
        return out


class Decomposed(nn.Linear):
    """A frozen layer beside which a user's own LoRA learns: B begins at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None)
        self.load_state_dict(layer.state_dict())
        self.requires_grad_(requires_grad=False)
        self.A = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output and what was learned beside it."""
        return super().forward(x) + 2.0 * x @ self.A.T @ self.B.T


class TunedGpt(nn.Module):
    """A language model that knows one table of words already, to be tuned to another; `own`: by a LoRA in it."""

    def __init__(self, own: bool = False, steps: int = 80, seed: int = 0) -> None:
        super().__init__()
        import samples
        from next_word import loss

        self.inner = Library("Llama", WORDS, 2).inner
        x, y = samples.language(seed, 1200, table=6).tensors
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-3)
        for step in range(steps):
            places = torch.arange(32 * step, 32 * step + 32) % len(x)
            optimizer.zero_grad()
            loss(self(x[places]), y[places]).backward()
            optimizer.step()
        if own:
            self.requires_grad_(requires_grad=False)
            for block in self.inner.model.layers:
                for name in ("q_proj", "v_proj"):
                    setattr(block.self_attn, name, Decomposed(getattr(block.self_attn, name)))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, time, words)."""
        out: Tensor = self.inner(x).logits
        return out


class Mixture(nn.Module):
    """Experts of which each row chooses two."""

    def __init__(self, inputs: int = 64, outputs: int = 10, experts: int = 4) -> None:
        super().__init__()
        self.stem, self.gate = nn.Sequential(nn.Flatten(), nn.Linear(inputs, WIDTH)), nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(experts)
        )
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        hidden = self.stem(x)
        best, chosen = self.gate(hidden).softmax(-1).topk(2)
        weights = torch.zeros(len(x), len(self.experts)).scatter(1, chosen, best)
        mixed = sum(weights[:, n, None] * expert(hidden) for n, expert in enumerate(self.experts))
        out: Tensor = self.head(hidden + mixed)
        return out


class Spread(nn.Module):
    """Mean and logarithm of the deviation of a number."""

    def __init__(self, inputs: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, WIDTH), nn.SiLU(), nn.Linear(WIDTH, 2))

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, 2)."""
        out: Tensor = self.layers(x)
        return out
