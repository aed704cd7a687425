"""Recomputation, compilation, channels-last and loader workers: the same bits, in other ways."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from trainwright.trainer.acceleration import compilation
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.config.schema import CompileSection
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow


def with_training(values: dict[str, Any], **training: Any) -> dict[str, Any]:
    return {**values, "training": {**values["training"], **training}}


RECOMPUTED = {"gradient_checkpointing": {"modules": ["layers"]}}


@pytest.mark.requirement("TRAIN-2")
@pytest.mark.parametrize("modules", [["layers"], ["layers.[1-4]", "re:^layers\\.9$"]])
def test_recomputed_activations_give_the_same_bits_with_dropout_and_batch_norm(
    modules: list[str], digits_values: Any, open_session: Any, trained: Any, bits: Any
) -> None:
    plain = open_session(digits_values, "plain")
    sparing = open_session(with_training(digits_values, gradient_checkpointing={"modules": modules}), "sparing")
    results = [trained(session, 6) for session in (plain, sparing)]
    norms = [[float(result.gradient_norm) for result in each] for each in results]
    assert norms[0] == norms[1]
    assert bits(sparing) == bits(plain)
    assert evaluate_split(sparing, sparing.validation_loader) == evaluate_split(plain, plain.validation_loader)


@pytest.mark.requirement("TRAIN-2")
def test_recomputation_holds_less_memory_until_the_backward_pass(
    digits_values: Any, open_session: Any, trained: Any
) -> None:
    held = {}
    for name, training in (("plain", {}), ("sparing", RECOMPUTED)):
        session = open_session(with_training(digits_values, **training), name)
        held[name] = bytes_held_for_the_backward_pass(session)
    assert held["sparing"] < held["plain"] / 2


def bytes_held_for_the_backward_pass(session: Any) -> int:
    """Count each tensor's memory once, without the parameters, which are there anyway."""
    own = {parameter.untyped_storage().data_ptr() for parameter in session.model.parameters()}
    held: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    session.model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        outcome = session.objective(session.model, next(session.train_loader.batches(0)))
    assert outcome.loss.requires_grad
    return sum(held.values())


@pytest.mark.requirement("TRAIN-2", "TRAIN-3")
def test_a_deep_copy_of_a_recomputing_model_computes_with_its_own_weights(
    digits_values: Any, open_session: Any
) -> None:
    import copy

    model = open_session(with_training(digits_values, **RECOMPUTED)).model
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not other.train()(torch.rand(4, 1, 8, 8)).any()


@pytest.mark.requirement("TRAIN-2")
@pytest.mark.parametrize(
    ("modules", "said"), [(["layres.*"], "matches no module"), (None, "no gradient_checkpointing_enable")]
)
def test_recomputation_of_nothing_is_refused(modules: Any, said: str, digits_values: Any, open_session: Any) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        open_session(with_training(digits_values, gradient_checkpointing={"modules": modules}))
    assert "layers" in f"{refused.value.message} {refused.value.remedy}"


@pytest.mark.requirement("TRAIN-2")
def test_a_transformers_model_recomputes_by_its_own_method(tmp_path: Any, open_session: Any, trained: Any) -> None:
    (tmp_path / "tiny.py").write_text(TINY)
    values = {"task": {"use": "tiny:build"}, "training": {"epochs": 1}, "logging": {"tensorboard": False}}
    plain = open_session(values, "plain")
    sparing = open_session(with_training(values, gradient_checkpointing={}), "sparing")
    assert any(getattr(module, "gradient_checkpointing", False) for module in sparing.model.modules())
    losses = [[float(r.gradient_norm) for r in trained(session, 2)] for session in (plain, sparing)]
    assert losses[0] == losses[1]


TINY = """
import torch
from transformers import BertConfig, BertForSequenceClassification
def build(config):
    size = BertConfig(vocab_size=20, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
                      max_position_embeddings=8, attn_implementation="eager")
    rows = [{"input_ids": torch.randint(0, 20, (8,), generator=torch.Generator().manual_seed(n)), "labels": n % 2}
            for n in range(16)]
    return {"model": BertForSequenceClassification(size), "train": rows, "validation": rows, "batch_size": 8}
"""


@pytest.mark.requirement("TRAIN-2", "REPRO-2", "REPRO-6")
@pytest.mark.skipif(not any(map(compilation.shutil.which, ("g++", "clang++"))), reason="no C++ compiler")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.long)])
def test_a_compiled_model_repeats_resumes_and_fits_eager_checkpoints(  # noqa: PLR0917 - fixtures
    backend: str, digits_values: Any, open_session: Any, trained: Any, bits: Any, taken_up: Any, monkeypatch: Any
) -> None:
    """By the backend that traces as the default one does and writes no C++, which takes ten seconds."""
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *args, **options: real(*args, **{**options, "backend": backend}))
    values = {**digits_values, "model": {"use": "mlp", "args": {"hidden": [8]}}}
    compiled = with_training(values, compile={"mode": "default"})
    whole, again = open_session(compiled, "whole"), open_session(compiled, "again")
    for session in (whole, again):
        trained(session, 2)
    assert bits(whole) == bits(again)
    assert whole.model._compiled_call_impl is not None
    assert not any("_orig_mod" in name for name in whole.model.state_dict())
    torch._dynamo.reset()  # the resumed run meets the smaller last batch first
    resumed = taken_up(again, open_session(compiled, "resumed"))
    resumed.progress.batch = whole.progress.batch = 19
    for session in (whole, resumed):
        trained(session, 1)
        session.progress.batch = 3
        trained(session, 2)
    assert bits(resumed) == bits(whole)
    eager = taken_up(whole, open_session(values, "eager"))
    assert bits(eager) == bits(whole)


@pytest.mark.requirement("TRAIN-2")
def test_compiling_without_a_compiler_is_refused_and_exports_do_not_compile(
    digits_values: Any, open_session: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    values = with_training(digits_values, compile={}, device="cpu")
    with pytest.raises(ConfigurationError, match="compiler") as refused:
        open_session(values)
    assert "training.compile to null" in refused.value.remedy
    exported = open_session(values, "export", kind=RunKind.EXPORT)
    assert exported.model._compiled_call_impl is None


@pytest.mark.requirement("TRAIN-2", "CONF-1")
def test_a_mode_that_chooses_by_the_clock_is_refused_where_two_runs_must_agree() -> None:
    work = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "training": {"compile": {"mode": "max-autotune"}}}
    with pytest.raises(ConfigurationError, match="max-autotune"):
        parse_config(work)
    parse_config({**work, "reproducibility": {"deterministic": False}})


IMAGES = """
import sklearn.datasets, torch
def data():
    found = sklearn.datasets.load_digits()
    images = torch.tensor(found.images[:300, None] / 16.0, dtype=torch.float32)
    return torch.utils.data.TensorDataset(images, torch.tensor(found.target[:300]))
"""


@pytest.mark.requirement("TRAIN-2", "REPRO-6")
def test_channels_last_trains_the_same_and_resumes_exactly(  # noqa: PLR0917 - fixtures
    tmp_path: Any, digits_values: Any, open_session: Any, trained: Any, bits: Any, taken_up: Any
) -> None:
    (tmp_path / "images.py").write_text(IMAGES)
    plain = {**digits_values, "model": {"use": "cnn"}, "data": {"use": "images:data"}, "loader": {"batch_size": 16}}
    values = with_training(plain, channels_last=True)
    whole, first, usual = open_session(values, "whole"), open_session(values, "first"), open_session(plain, "usual")
    images = [parameter for parameter in whole.model.parameters() if parameter.dim() == 4]
    assert all(image.is_contiguous(memory_format=torch.channels_last) for image in images)
    results = [trained(session, 4) for session in (whole, first, usual)]
    assert float(results[0][-1].loss) == pytest.approx(float(results[2][-1].loss), rel=1e-3)
    resumed = taken_up(first, open_session(values, "resumed"))
    states = [state["exp_avg"] for state in resumed.optimizers["optimizer"].state.values()]
    assert any(s.dim() == 4 and s.is_contiguous(memory_format=torch.channels_last) for s in states)
    for session in (whole, resumed):
        trained(session, 4)
    assert bits(resumed) == bits(whole)


class Noisy(torch.utils.data.Dataset[Any]):
    epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return torch.randn(3) + self.epoch, torch.tensor(os.getpid())


@pytest.mark.requirement("TRAIN-2", "REPRO-1", "REPRO-6")
def test_persistent_workers_fetch_what_fresh_ones_do_and_stay() -> None:
    from trainwright.trainer.data.loader import BatchLoader

    fetched, processes = {}, {}
    for label, options in {
        "in this process": {},
        "fresh": {"num_workers": 2},
        "persistent": {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 3},
    }.items():
        loader = BatchLoader(Noisy(), 2, seed=5, shuffle=True, **options)  # type: ignore[arg-type]
        before = torch.get_rng_state()
        next(loader.batches(0))  # left in the middle, as a stopped epoch is
        epochs = [list(loader.batches(epoch, 2)) for epoch in (0, 1)]
        assert torch.equal(torch.get_rng_state(), before)
        fetched[label] = torch.stack([values for batches in epochs for values, _ in batches])
        processes[label] = [{int(p) for _, owners in batches for p in owners} for batches in epochs]
    assert torch.equal(fetched["fresh"], fetched["in this process"])
    assert torch.equal(fetched["persistent"], fetched["in this process"])
    assert processes["persistent"][0] == processes["persistent"][1]
    assert processes["fresh"][0] != processes["fresh"][1]


class Reusing(torch.nn.Module):
    """Returns its outputs in memory that the next call writes to, as a CUDA graph does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.memory = torch.zeros(2)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        self.memory = self.memory.detach().copy_(self.weight.detach() * x)
        return {"logits": self.memory, "more": (self.weight * x, 3)}


@pytest.mark.requirement("TRAIN-2")
@pytest.mark.parametrize(
    ("mode", "device", "are_kept"),
    [
        ("reduce-overhead", "cuda", True),
        ("max-autotune", "cuda", True),
        ("default", "cuda", False),
        ("reduce-overhead", "cpu", False),
    ],
)
def test_outputs_of_a_recorded_graph_are_kept_apart_from_the_next_ones_and_have_their_gradient(
    mode: Any, device: str, are_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory is reused by the model itself, compiled or not."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(compilation, "require_compiler", lambda _: None)
    model = Reusing()
    compilation.compile_model(model, CompileSection(mode=mode), torch.device(device))
    first, second = model(torch.ones(2)), model(torch.full((2,), 2.0))
    assert second["logits"].tolist() == [2.0, 2.0]
    assert (first["logits"].tolist() == [1.0, 1.0]) == are_kept, first
    first["more"][0].sum().backward()
    assert model.weight.grad is not None
    assert first["more"][1] == 3
