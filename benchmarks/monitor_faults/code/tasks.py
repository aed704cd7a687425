"""Tasks of the suite with steps of their own: a GAN, a policy of noisy rewards, a step that keeps its graphs."""

from __future__ import annotations

from typing import Any

import samples
import torch
from networks import Plain
from torch import Tensor, nn


def halves(whole: Any, share: float = 0.8) -> dict[str, Any]:
    """Return the rows as train and validation."""
    rows = [whole[place] for place in range(len(whole))]
    cut = int(share * len(rows))
    return {"train": rows[:cut], "validation": rows[cut:]}


def keeping(config: Any, context: Any) -> dict[str, Any]:
    """Build a step that sums the loss with its graph, for a mean that is never cleared."""
    kept: list[Tensor] = []

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:
        x, y = batch
        wide = x.repeat(1, config.get("copies", 400))  # what each kept graph holds on to
        out = model(x) + 0.0 * wide.relu().exp().mean()
        loss = nn.functional.cross_entropy(out, y)
        if context.training and config.get("keeps", True):
            kept.append(loss + 0.0 * (wide.requires_grad_() ** 2).mean())
        return {"loss": loss}

    blobs = samples.blobs(context.data_seed, 1200)
    return {"model": Plain(inputs=8, outputs=3), **halves(blobs), "step": step}


def gan(config: Any, context: Any) -> dict[str, Any]:
    """Build a GAN of points on a ring; `generator_rate` and `discriminator_rate` say who learns faster."""
    generator, discriminator = Plain(4, 2, width=32), Plain(2, 1, width=32, activation="leaky_relu")
    model = nn.ModuleDict({"generator": generator, "discriminator": discriminator})
    rates = {"generator": config.get("generator_rate", 1e-3), "discriminator": config.get("discriminator_rate", 1e-3)}
    optimizers = {n: torch.optim.Adam(model[n].parameters(), lr=rate, betas=(0.5, 0.9)) for n, rate in rates.items()}
    drawn = torch.Generator().manual_seed(context.data_seed)
    angles = 6.2832 * torch.rand(640, generator=drawn)
    real = torch.stack([angles.cos(), angles.sin()], 1) * config.get("radius", 1.0)
    real = real + 0.05 * torch.randn(640, 2, generator=drawn)
    judged = nn.functional.binary_cross_entropy_with_logits

    def train_step(model: Any, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (points,) = batch
        made = model["generator"](torch.randn(len(points), 4))
        true, false = model["discriminator"](points), model["discriminator"](made.detach())
        loss = judged(true, torch.ones_like(true)) + judged(false, torch.zeros_like(false))
        optimizers["discriminator"].zero_grad()
        loss.backward()
        optimizers["discriminator"].step()
        fooled = model["discriminator"](made)
        generator_loss = judged(fooled, torch.ones_like(fooled))
        optimizers["generator"].zero_grad()
        generator_loss.backward()
        optimizers["generator"].step()
        return {
            "loss": (loss + generator_loss).detach(),
            "discriminator_loss": loss.detach(),
            "generator_loss": generator_loss.detach(),
        }

    def validation_step(model: Any, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (points,) = batch
        made = model["generator"](torch.randn(len(points), 4, generator=torch.Generator().manual_seed(0)))
        between, within = torch.cdist(points, made).mean(), torch.cdist(made, made).mean()
        return {"loss": 2 * between - within - torch.cdist(points, points).mean()}

    parts = halves(torch.utils.data.TensorDataset(real))
    steps = {"train_step": train_step, "validation_step": validation_step, "optimizers": optimizers}
    return {"model": model, **parts, **steps}


def bandit(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build a policy that learns from noisy rewards of what it drew: its loss jumps about zero and need not fall."""

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        x, y = batch
        chances = torch.distributions.Categorical(logits=model(x))
        chosen = chances.sample()
        reward = (chosen == y).float() + 0.5 * torch.randn(len(y), device=y.device)
        return {"loss": -(chances.log_prob(chosen) * (reward - 0.5)).mean(), "reward": reward.mean()}

    return {"model": Plain(inputs=8, outputs=3), **halves(samples.blobs(context.data_seed, 600)), "step": step}
