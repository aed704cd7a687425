"""The quick norm and clipping give torch's own bits, in whatever form the gradients come."""

from __future__ import annotations

import pytest
import torch

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
