"""Networks of the suite: what a user would write, sound or with one of the faults that the suite injects."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

ACTIVATIONS = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Plain(nn.Module):
    """Layers one after the other; `bias` and `gain` change how their weights begin."""

    def __init__(
        self,
        inputs: int = 64,
        outputs: int = 10,
        *,
        width: int = 64,
        depth: int = 2,
        activation: str = "relu",
        norm: bool = False,
        dropout: float = 0.0,
        bias: float | None = None,
        gain: float = 1.0,
    ) -> None:
        super().__init__()
        widths = [inputs, *[width] * depth]
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), *([nn.LayerNorm(after)] if norm else []), ACTIVATIONS[activation]()]
            layers += [nn.Dropout(dropout)] if dropout else []
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], outputs))
        for layer in self.layers[:-1]:
            if isinstance(layer, nn.Linear):
                layer.weight.data.mul_(gain)
                if bias is not None:
                    nn.init.constant_(layer.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, or the numbers."""
        out: Tensor = self.layers(x)
        return out


class Number(Plain):
    """The same for one number a sample."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch,)."""
        return super().forward(x).squeeze(-1)


class Logarithmic(Plain):
    """The same for amounts, of which it takes the logarithm: that of 0 is not finite."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        return super().forward(torch.log(x))


class Recurrent(nn.Module):
    """A plain recurrent network, unrolled; `gain` above 1 makes what it remembers grow with each step."""

    def __init__(self, width: int = 32, outputs: int = 2, gain: float = 1.0, activation: str = "tanh") -> None:
        super().__init__()
        self.cell = nn.RNNCell(1, width, nonlinearity="relu" if activation == "relu" else "tanh")
        nn.init.orthogonal_(self.cell.weight_hh, gain)
        self.head = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits after the last of (batch, time) numbers."""
        state = x.new_zeros(len(x), self.cell.hidden_size)
        for moment in x.unbind(1):
            state = self.cell(moment[:, None], state)
        out: Tensor = self.head(state)
        return out


class Words(nn.Module):
    """Sentences of word numbers, their embeddings averaged."""

    def __init__(self, words: int = 200, width: int = 32, outputs: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(words, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        out: Tensor = self.head(self.embedding(x))
        return out


class Attentive(nn.Module):
    """A small transformer with its norms after the blocks, which needs a warmup; `before` puts them first."""

    def __init__(self, words: int = 64, width: int = 32, depth: int = 4, before: bool = False) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(words, width), nn.Parameter(0.02 * torch.randn(32, width))
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=before)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, time, words)."""
        seen = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        hidden = self.blocks(self.embedding(x) + self.place[: x.shape[1]], mask=seen, is_causal=True)
        out: Tensor = self.head(hidden)
        return out


class Tuned(nn.Module):
    """A network that has already learned its task (`samples.blobs`), to be trained on from there."""

    def __init__(self, inputs: int = 8, outputs: int = 3, trained_steps: int = 200, seed: int = 0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))
        drawn = torch.Generator().manual_seed(seed)
        centres = 2.0 * torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(5))
        optimizer = torch.optim.Adam(self.parameters(), lr=5e-3)
        for _ in range(trained_steps):
            y = torch.randint(outputs, (64,), generator=drawn)
            x = centres[y] + torch.randn(64, inputs, generator=drawn)
            loss = nn.functional.cross_entropy(self.layers(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        out: Tensor = self.layers(x)
        return out
