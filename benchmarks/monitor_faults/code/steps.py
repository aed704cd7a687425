"""Tasks of the sound kinds with steps of their own: generative, reinforced, taught, of several aims."""

from __future__ import annotations

from typing import Any

import kinds_data
import samples
import torch
from networks import Plain
from tasks import halves
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as binary
from torch.nn.functional import cross_entropy, mse_loss


class Vae(nn.Module):
    """Pictures through a code of four numbers, drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> Tensor:
        """Return pixels, mean and logarithm of the variance side by side: (batch, 72)."""
        code = self.encoder(x)
        mean, spread = code.chunk(2, -1)
        return torch.cat([self.decoder(mean + torch.randn_like(mean) * (spread / 2).exp()), code], 1)


def vae(config: Any, context: Any) -> dict[str, Any]:
    """Build a VAE whose loss is a sum over pixels (`mean`: a mean), a mean over samples."""
    scale = 1 / 64 if config.get("mean") else 1.0

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        x, _ = batch
        pixels, mean, spread = model(x).split([64, 4, 4], 1)
        likely = binary(pixels, x.flatten(1), reduction="none").sum(1).mean()
        beside = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()
        return {"loss": scale * (likely + beside), "divergence": beside}

    return {"model": Vae(), **halves(samples.digits(context.data_seed)), "step": step}


def autoencoder(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build an autoencoder of pictures."""

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        x, _ = batch
        return {"loss": mse_loss(model(x).sigmoid(), x.flatten(1))}

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 64))
    return {"model": model, **halves(samples.digits(context.data_seed)), "step": step}


def diffusion(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build a denoiser of points on a ring: it predicts the noise, of which much cannot be known."""

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (points,) = batch
        moment = torch.rand(len(points), 1)
        noise = torch.randn_like(points)
        left = torch.cos(moment * 1.5708)
        noisy = left * points + (1 - left**2).sqrt() * noise
        return {"loss": mse_loss(model(torch.cat([noisy, moment], 1)), noise)}

    angles = 6.2832 * torch.rand(1600, generator=torch.Generator().manual_seed(context.data_seed))
    rows = torch.utils.data.TensorDataset(torch.stack([angles.cos(), angles.sin()], 1))
    return {"model": Plain(3, 2, width=64), **halves(rows), "step": step}


def taught(config: Any, context: Any) -> dict[str, Any]:
    """Build a student of a trained teacher: the loss is a mixture of both at a temperature."""
    teacher, heat = Plain(8, 3, width=64), config.get("heat", 4.0)
    rows = samples.blobs(context.data_seed, 900)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(teacher(rows.tensors[0]), rows.tensors[1]).backward()
        optimizer.step()
    teacher.requires_grad_(requires_grad=False)

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        x, y = batch
        out, wanted = model(x), (teacher(x) / heat).softmax(-1)
        soft = cross_entropy(out / heat, wanted) * heat**2
        return {"loss": 0.5 * soft + 0.5 * cross_entropy(out, y)}

    return {"model": Plain(8, 3, width=16), **halves(rows), "step": step}


def several(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build a network of three aims, of which one is noise that nothing explains."""
    drawn = torch.Generator().manual_seed(context.data_seed)
    x = torch.randn(700, 8, generator=drawn)
    noise = torch.randn(700, 2, generator=drawn)
    y = torch.stack([(x[:, 0] + x[:, 1] > 0).float(), 5 * x[:, 2] + noise[:, 0], noise[:, 1]], 1)

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        x, y = batch
        out = model(x)
        first = binary(out[:, 0], y[:, 0])
        second, third = mse_loss(out[:, 1], y[:, 1]), mse_loss(out[:, 2], y[:, 2])
        return {"loss": first + second + third, "class": first, "number": second, "noise": third}

    return {"model": Plain(8, 3, width=32), **halves(torch.utils.data.TensorDataset(x, y)), "step": step}


def triplets(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build an embedding of which alike pictures are nearer by a margin."""
    x, y = samples.digits(context.data_seed, 900).tensors
    drawn = torch.Generator().manual_seed(context.data_seed)
    same = torch.tensor([int((y == one).nonzero()[int(torch.randint(int((y == one).sum()), (1,), generator=drawn))])
                         for one in y])  # fmt: skip
    other = torch.tensor([int((y != one).nonzero()[int(torch.randint(int((y != one).sum()), (1,), generator=drawn))])
                          for one in y])  # fmt: skip

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        anchor, near, far = (nn.functional.normalize(model(one)) for one in batch)
        return {"loss": nn.functional.triplet_margin_loss(anchor, near, far, margin=0.3)}

    rows = torch.utils.data.TensorDataset(x, x[same], x[other])
    return {"model": Plain(64, 16), **halves(rows), "step": step}


def factors(config: Any, context: Any) -> dict[str, Any]:  # noqa: ARG001 - the engine's form
    """Build a recommender that ranks what was liked above what was not (BPR), its factors beginning small."""
    from kinds import Factors

    def step(model: nn.Module, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        pairs, liked = batch
        scores = model(pairs)
        apart = scores[:, None] - scores[None]
        known = (liked[:, None] > liked[None]).float()
        return {"loss": (-nn.functional.logsigmoid(apart) * known).sum() / known.sum().clamp(min=1.0)}

    return {"model": Factors(), **halves(kinds_data.ratings(context.data_seed)), "step": step}


def actor_critic(config: Any, context: Any) -> dict[str, Any]:
    """Build a policy with a critic: returns grow as it learns, and with them the loss of the critic."""
    model = nn.ModuleDict({"actor": Plain(4, 3, width=32), "critic": Plain(4, 1, width=32)})
    optimizer = torch.optim.Adam(model.parameters(), lr=config.get("rate", 3e-3))

    def train_step(model: Any, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (states,) = batch
        total, losses = torch.zeros(len(states)), []
        drawn, guessed, rewards = [], [], []
        for _ in range(10):
            chances = torch.distributions.Categorical(logits=model["actor"](states))
            chosen = chances.sample()
            reward = 10.0 * (chosen == states[:, :3].argmax(1)).float()
            drawn.append(chances.log_prob(chosen))
            guessed.append(model["critic"](states)[:, 0])
            rewards.append(reward)
            states = states.roll(1, 1)
        for logarithm, guess, reward in zip(reversed(drawn), reversed(guessed), reversed(rewards), strict=True):
            total = reward + 0.99 * total
            losses.append(-(logarithm * (total - guess.detach()) / 10).mean() + 0.5 * mse_loss(guess, total))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return {"loss": loss.detach(), "return": total.mean()}

    def validation_step(model: Any, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (states,) = batch
        right = (model["actor"](states).argmax(1) == states[:, :3].argmax(1)).float().mean()
        guess = model["critic"](states)[:, 0]
        return {"loss": mse_loss(guess, 100 * right.expand(len(states))), "return": right * 100}

    states = torch.randn(640, 4, generator=torch.Generator().manual_seed(context.data_seed))
    parts = halves(torch.utils.data.TensorDataset(states))
    return {
        "model": model, **parts, "train_step": train_step, "validation_step": validation_step,
        "optimizers": {"all": optimizer},
    }  # fmt: skip


def hinge_gan(config: Any, context: Any) -> dict[str, Any]:
    """Build a GAN with the hinge loss and a critic that takes two steps."""
    import tasks

    built = tasks.gan(config, context)
    model, optimizers = built["model"], built["optimizers"]

    def train_step(model: Any, batch: Any, context: Any) -> dict[str, Tensor]:  # noqa: ARG001 - the engine's form
        (points,) = batch
        for _ in range(2):
            made = model["generator"](torch.randn(len(points), 4)).detach()
            loss = (1 - model["discriminator"](points)).relu().mean() + (1 + model["discriminator"](made)).relu().mean()
            optimizers["discriminator"].zero_grad()
            loss.backward()
            optimizers["discriminator"].step()
        generator_loss = -model["discriminator"](model["generator"](torch.randn(len(points), 4))).mean()
        optimizers["generator"].zero_grad()
        generator_loss.backward()
        optimizers["generator"].step()
        return {"loss": generator_loss.detach(), "d_loss": loss.detach(), "g_loss": generator_loss.detach()}

    return {**built, "model": model, "train_step": train_step}
