"""The quick norm and clipping give torch's own bits, in whatever form the gradients come."""

from __future__ import annotations

import pytest
import torch

from trainwright.trainer.optimization import norms
from trainwright.trainer.optimization.update import clip_to, total_norm


@pytest.mark.requirement("TRAIN-2")
@pytest.mark.parametrize("form", ["plain", "mixed types", "one", "with a graph"])
@pytest.mark.parametrize("largest", [0.5, 1e3])
def test_norm_and_clipping_are_torchs_own(form: str, largest: float) -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(5, 3, generator=generator), torch.randn(7, generator=generator)]
    if form == "mixed types":
        gradients.append(torch.randn(4, generator=generator).to(torch.bfloat16))
    if form == "one":
        gradients = gradients[:1]
    if form == "with a graph":
        gradients = [(gradient.requires_grad_() * 1.0) for gradient in gradients]
    parameters = [torch.nn.Parameter(torch.zeros(gradient.shape, dtype=gradient.dtype)) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.detach().clone()
    norm = total_norm(gradients)
    assert torch.equal(norm, torch.nn.utils.get_total_norm(gradients))
    own = [gradient.detach().clone() for gradient in gradients]
    clip_to([], own, largest, norm.detach())
    torch.nn.utils.clip_grads_with_norm_(parameters, largest, norm.detach())
    assert all(torch.equal(mine, other.grad) for mine, other in zip(own, parameters, strict=True))


@pytest.mark.requirement("TRAIN-2")
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, float("inf"), float("nan")])
def test_clipping_rounds_as_torch_does_at_any_limit(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    for largest in torch.logspace(-4, 2, 200).tolist():
        own = [torch.randn(5, generator=generator) * scale]
        parameter = torch.nn.Parameter(torch.zeros(5))
        parameter.grad = own[0].clone()
        norm = total_norm(own)
        clip_to([], own, largest, norm)
        torch.nn.utils.clip_grads_with_norm_([parameter], largest, norm)
        assert torch.equal(own[0].nan_to_num(7.0), parameter.grad.nan_to_num(7.0))


@pytest.mark.requirement("TRAIN-2")
def test_no_gradients_have_norm_zero() -> None:
    assert total_norm([]) == 0


@pytest.mark.parametrize("largest", [0.5, 1000.0])
def test_an_older_torch_gives_the_norm_and_the_clipping_of_a_newer_one(largest: float) -> None:
    made = [torch.randn(3, 4), torch.randn(7).half(), torch.randn(2)]
    ours, torchs = ([torch.nn.Parameter(one.clone()) for one in made] for _ in range(2))
    for one, other in list(zip(ours, torchs, strict=True))[:2]:  # the last one was not reached
        one.grad = torch.randn_like(one)
        other.grad = one.grad.clone()
    norm = norms.get_total_norm([one.grad for one in ours if one.grad is not None])
    assert torch.allclose(norm, torch.nn.utils.get_total_norm([one.grad for one in torchs if one.grad is not None]))
    norms.clip_grads_with_norm_(ours, largest, norm)
    torch.nn.utils.clip_grads_with_norm_(torchs, largest, norm)
    assert all(torch.equal(one.grad, other.grad) for one, other in zip(ours[:2], torchs[:2], strict=True))
    assert ours[2].grad is None
