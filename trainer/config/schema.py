"""The one schema of a training configuration (CONF-1).

Every section is frozen and strict: an unknown key, a wrong type or an impossible combination is an error.
Sections are grouped by meaning; units are in the names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from trainwright import PLATFORMS
from trainwright.trainer.base.section import (
    AnyMetric,
    Entry,
    ImpossibleError,
    NonNegativeFloat,
    Patterns,
    PositiveFloat,
    PositiveInt,
    Section,
    Seed,
)
from trainwright.trainer.catalog.names import require_known, with_arguments
from trainwright.trainer.config.cross_rules import check_combinations
from trainwright.trainer.config.distributed import DistributedSection
from trainwright.trainer.config.environment import EnvironmentSection
from trainwright.trainer.config.search import SearchSection
from trainwright.trainer.data.sections import CurriculumSection, SplitSection
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.models.adapters import AnyAdapter
from trainwright.trainer.objectives.mixing_sections import MixingSection, ProgressiveResizingSection
from trainwright.trainer.objectives.sections import ObjectiveSection, SupervisedSection
from trainwright.trainer.optimization.optimizers import DEFAULT_OPTIMIZER, OPTIMIZERS, AnyOptimizer
from trainwright.trainer.optimization.parameters import FreezingSection
from trainwright.trainer.optimization.schedules import DEFAULT_SCHEDULE, SCHEDULES, AnySchedule
from trainwright.trainer.optimization.weight_averaging import WeightAveragingSection

Precision = Literal["fp32", "tf32", "bf16", "fp16"]


class GradientCheckpointingSection(Section):
    """Forget activations and compute them again in the backward pass: less memory, the same gradients."""

    modules: Patterns | None = None
    """Patterns of module names (`layers.*`); None: the model's own gradient_checkpointing_enable."""


class CompileSection(Section):
    """torch.compile of the model."""

    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"
    dynamic: bool = False
    """One kernel for every size of batch, instead of one for each."""


FUNCTION = r"^[^:]+\.py:[A-Za-z_]\w*$"


class DataSection(Entry):
    """Where the samples come from (tier 0/1), and how they are split."""

    split: SplitSection = Field(default_factory=SplitSection)
    expectations: str | Expectations | None = None
    """A file of expectations under the code root, or what it would hold; None: the default checks alone."""
    licence: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Of the data, for its card; left out: what a card beside the data's files says."""
    prepare: Annotated[str, Field(pattern=FUNCTION)] | None = None
    """`path/file.py:callable` from a raw input, as people have it, to a sample's inputs; shipped with a final model."""
    present: Annotated[str, Field(pattern=FUNCTION)] | None = None
    """`path/file.py:callable` from a sample's output to its answer, as JSON; shipped likewise."""

    @property
    def served(self) -> list[str]:
        """The two of them that there are."""
        return [entry for entry in (self.prepare, self.present) if entry is not None]


class LoaderSection(Section):
    """How batches are fetched."""

    batch_size: Annotated[int, Field(ge=1, le=2**20)] = 32
    num_workers: Annotated[int, Field(ge=0, le=64)] = 0
    prefetch_factor: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Batches that each worker keeps ready; None: torch's two."""
    persistent_workers: bool = False
    """Keep the workers from one epoch to the next."""
    pin_memory: bool = False
    drop_last: bool = False
    """Leave out a last batch that is smaller than batch_size."""
    shuffle: Literal["auto", "full", "blocks", "length"] = "auto"
    """Train samples each epoch in a uniformly random order, by blocks of neighbours, or texts of about one length
    together; auto: blocks from a disk."""


class TaskSection(Entry):
    """One callable `build(config, context) -> dict` that hands over model, data and the rest (tier 2/3)."""


class TrainerSection(Entry):
    """One callable that returns a trainer of another library, such as transformers.Trainer, to be run as it is."""


Returns = Literal["output", "logits,loss", "loss,logits", ".loss", "loss", "compute_loss"]


class TrainingSection(Section):
    """How long and how exactly to train."""

    epochs: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    max_steps: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Stop after this many optimizer steps, regardless of the epochs."""
    precision: Precision = "fp32"
    initial_loss_scale: Annotated[float, Field(ge=1.0, le=2.0**24)] = 65536.0
    """fp16: the loss is multiplied by so much at first, and by less after each overflow."""
    loss_scale_growth_steps: PositiveInt = 2000
    """fp16: steps without an overflow after which the scale is doubled."""
    gradient_checkpointing: GradientCheckpointingSection | None = None
    compile: CompileSection | None = None
    channels_last: bool = False
    """Keep images with the channels innermost in memory, which convolutions may be faster with."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    accumulation_steps: Annotated[int, Field(ge=1, le=2**20)] = 1
    clip_norm: PositiveFloat | None = None
    """Largest total gradient norm; larger gradients are scaled down to it."""
    clip_value: PositiveFloat | None = None
    """Largest absolute value of a gradient's entry; larger entries are cut to it."""
    validate_every_n_epochs: PositiveInt = 1

    @field_validator("device", mode="before")
    @classmethod
    def _no_apple_gpu(cls, value: Any) -> Any:
        if isinstance(value, str) and value.lower().partition(":")[0] in {"mps", "metal"}:
            raise ImpossibleError(PLATFORMS.removesuffix("."), {"training.device": "cpu"})
        return value

    @model_validator(mode="after")
    def _one_way_to_clip(self) -> Self:
        if self.clip_norm is not None and self.clip_value is not None:
            raise ImpossibleError(
                "clip by training.clip_norm or by training.clip_value, not both",
                {"training.clip_norm": None},
                {"training.clip_value": None},
            )
        return self


class SelectionSection(Section):
    """The validation metric by which the best checkpoint, early stopping and tuning choose."""

    metric: str = Field(default="loss", min_length=1)
    direction: Literal["minimize", "maximize"] = "minimize"


class EarlyStoppingSection(Section):
    """Stop when the selection metric has not improved."""

    enabled: bool = True
    patience_epochs: PositiveInt = 10
    min_delta: NonNegativeFloat = 0.0


class CheckpointsSection(Section):
    """Which states of the run are kept (CONF-5)."""

    checkpoint_every_n_epochs: PositiveInt = 5
    checkpoint_every_n_steps: PositiveInt | None = None
    """Renew the last checkpoint within epochs too, for epochs that are too long to lose."""
    save_best: bool = True
    save_last: bool = True

    @model_validator(mode="after")
    def _steps_renew_the_last(self) -> Self:
        if self.checkpoint_every_n_steps is not None and not self.save_last:
            raise ImpossibleError(
                "checkpoints.checkpoint_every_n_steps renews the last checkpoint: set save_last true",
                {"checkpoints.save_last": True},
                {"checkpoints.checkpoint_every_n_steps": None},
            )
        return self


class LoggingSection(Section):
    """Recorded values, and how often."""

    every_n_steps: PositiveInt = 10
    """Read gathered values from the device and write them, every so many steps."""
    tensorboard: bool = True
    mlflow: bool = False
    """Show the run in MLflow: in the workspace's own store, or on the server that the owner names."""
    wandb: bool = False
    """Show the run in Weights & Biases; offline where the server's environment has no WANDB_API_KEY."""
    trace_steps: Annotated[int, Field(ge=0, le=100)] = 0
    """Steps that PyTorch's profiler traces, after the first three; 0: none."""


class MonitoringSection(Section):
    """What is watched inside the worker, and what an alert does there. It never changes a step's bits."""

    on_critical: Literal["stop", "checkpoint", "tell"] = "stop"
    """A critical alert ends the run as failed, saves and stops it so that it can be resumed, or is only reported."""
    on_warning: Literal["tell", "checkpoint"] = "tell"
    """A warning is only reported, or saves and stops the run so that it can be resumed."""
    inspect: Literal["auto", "off"] = "auto"
    """Look into the layers at the first three steps, then as often as costs less than a hundredth of the time."""


class ReproducibilitySection(Section):
    """Settings that make two runs identical (REPRO-1, REPRO-2)."""

    deterministic: bool = True
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    """CPU threads of one worker. The number changes the result's last bits, so it is part of the record."""


Format = Literal["safetensors", "onnx", "torch_export", "torchscript"]
USUAL_FORMATS: list[Format] = ["safetensors", "onnx"]


class DeploymentSection(Section):
    """Formats that the final model is exported to (CONF-4)."""

    formats: Annotated[list[Format], Field(min_length=1)] = Field(default_factory=USUAL_FORMATS.copy)
    """The weights are always there; without onnx a program of torch.export is what is evaluated, where there is one."""
    onnx_tolerance: PositiveFloat = 1e-4
    """Largest difference between the ONNX file's outputs and the model's, times the largest output where above 1."""
    variants: list[Literal["fp16", "int8"]] = Field(default_factory=list)
    """Smaller ONNX files beside the certified one, each with its cost in the metrics on the validation rows."""
    share_rows: bool = False
    """Copy the fixed validation and test rows into the final model's folder, for whoever evaluates it again."""

    @model_validator(mode="after")
    def _variants_are_of_onnx(self) -> Self:
        if self.variants and "onnx" not in self.formats:
            raise ValueError(f"variants {self.variants} are made of model.onnx: add onnx to deployment.formats")
        return self

    def writes_as(self, other: DeploymentSection) -> bool:
        """Return whether an export under the other section writes the same files of the model."""
        mine, theirs = ((set(one.formats), set(one.variants), one.onnx_tolerance) for one in (self, other))
        return mine == theirs


class EvaluationGateSection(Section):
    """Requirement on the final model beside the goal (PIPE-3). Fixed at planning, all but the reference."""

    minimum: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Validation metric, or `test/…`, to its least value: for metrics that are to be large; of several targets also
    `r2 of strength`."""
    maximum: dict[str, FiniteFloat] = Field(default_factory=dict)
    """The same to its largest value: for metrics that are to be small."""
    max_drift: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share by which the final run may be worse than the accepted configuration, and than `baseline`; None: the
    checklist's."""
    baseline: Annotated[str, Field(min_length=1)] | None = None
    """A run to compare with, of any project (`churn/final-1`), or a registered model (`churn@v2`)."""
    reference: Annotated[str, Field(pattern=r"^.+\.py:[A-Za-z_]\w*$")] | None = None
    """Function of the inputs (`rules.py:predict`) that gives outputs, or classes, to compare with on the same rows; or
    of train rows and their targets (`rules.py:fit`), which gives that function. No run depends on it."""
    least_gain: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Validation metric, or `test/…`, to how much better than the baseline's it must be."""
    slices: dict[str, dict[str, FiniteFloat]] = Field(default_factory=dict)
    """Rows of the validation split (`plan=basic`, `age>=65`, joined by ` & `) to the bounds of their metrics: the
    least value, of a metric that is to be small the largest."""
    groups: dict[str, dict[str, FiniteFloat]] = Field(default_factory=dict)
    """The same for each value of a column that has enough rows."""
    least_group_rows: PositiveInt = 20
    """Groups of fewer rows are shown, and close nothing."""

    def metrics(self) -> list[str]:
        """Return the metrics that are bounded, as named: with `test/` those of the test split."""
        parts = (self.minimum, self.maximum, self.least_gain, *self.slices.values(), *self.groups.values())
        return list(dict.fromkeys(name for part in parts for name in part))

    @model_validator(mode="after")
    def _a_gain_is_over_a_baseline(self) -> Self:
        if self.least_gain and self.baseline is None:
            raise ValueError("least_gain is over a baseline: name evaluation_gate.baseline, a run or project@v1")
        return self

    @model_validator(mode="after")
    def _a_slice_has_means_over_targets_alone(self) -> Self:
        bounded = [name for part in (*self.slices.values(), *self.groups.values()) for name in part]
        for name in (name for name in bounded if " of " in name):
            raise ValueError(f"{name!r} is of one target, and slices have means over them: evaluation_gate.minimum")
        return self


class TrainingConfig(Section):
    """A complete training configuration. Either `model` with `data` and `loss`, or one `task`, or one `trainer`."""

    seed: Seed = 42
    code_root: str = "."
    """Folder of the user's code and data, inside a root that the workspace's owner allowed."""
    code_files: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)
    """Further files of the user's code, which every run imports: variants that trials and ablations may name."""
    environment: EnvironmentSection | None = None
    model: Annotated[Entry, AfterValidator(with_arguments("model.use"))] | None = None
    adapter: AnyAdapter | None = None
    data: Annotated[DataSection, AfterValidator(with_arguments("data.use"))] | None = None
    loss: Annotated[str | Entry, AfterValidator(with_arguments("loss"))] = "cross_entropy"
    target_scaling: Literal["standardize", "log", "log1p"] | None = None
    """Of a number to predict: the loss sees targets of mean 0 and deviation 1, measured on the train split; metrics,
    predictions and exports keep the targets' units."""
    metrics: list[Annotated[AnyMetric, AfterValidator(with_arguments("metrics"))]] = Field(default_factory=list)
    task: TaskSection | None = None
    trainer: TrainerSection | None = None
    returns: Returns | None = None
    """How to read the model's output; settled by the smoke run on a real batch when it is left out."""
    loader: LoaderSection = Field(default_factory=LoaderSection)
    objective: ObjectiveSection = Field(default_factory=SupervisedSection)
    optimizer: AnyOptimizer = Field(default_factory=OPTIMIZERS[DEFAULT_OPTIMIZER])
    schedule: AnySchedule = Field(default_factory=SCHEDULES[DEFAULT_SCHEDULE])
    freezing: FreezingSection | None = None
    weight_averaging: WeightAveragingSection | None = None
    mixing: MixingSection | None = None
    curriculum: Annotated[CurriculumSection, AfterValidator(with_arguments("curriculum.use"))] | None = None
    progressive_resizing: ProgressiveResizingSection | None = None
    training: TrainingSection = Field(default_factory=TrainingSection)
    selection: SelectionSection = Field(default_factory=SelectionSection)
    early_stopping: EarlyStoppingSection = Field(default_factory=EarlyStoppingSection)
    checkpoints: CheckpointsSection = Field(default_factory=CheckpointsSection)
    logging: LoggingSection = Field(default_factory=LoggingSection)
    monitoring: MonitoringSection = Field(default_factory=MonitoringSection)
    reproducibility: ReproducibilitySection = Field(default_factory=ReproducibilitySection)
    distributed: DistributedSection = Field(default_factory=DistributedSection)
    search: SearchSection | None = None
    deployment: DeploymentSection = Field(default_factory=DeploymentSection)
    evaluation_gate: EvaluationGateSection | None = None

    @property
    def reference(self) -> str | None:
        """The user's function to compare with; None without one."""
        return self.evaluation_gate.reference if self.evaluation_gate is not None else None

    def exports_as(self, other: TrainingConfig) -> bool:
        """Return whether an export under the other writes the same files of the model, beside the same reference."""
        return self.deployment.writes_as(other.deployment) and self.reference == other.reference

    @model_serializer(mode="wrap")
    def _without_a_missing_environment(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave it out where there is none, so that digests of configurations are those of before there was any."""
        found: dict[str, Any] = write(self)
        if self.environment is None:
            found.pop("environment", None)
        return found

    @model_validator(mode="after")
    def _one_way_to_name_the_work(self) -> Self:
        if self.task is not None and (self.model is not None or self.data is not None):
            raise ImpossibleError(
                "`task` hands over the model and the data itself: give `task`, or `model` and `data`",
                {"model": None, "data": None},
                {"task": None},
            )
        if self.task is None and self.trainer is None and (self.model is None or self.data is None):
            raise ValueError(
                "give `model` and `data`, or one `task`: {model: {use: mlp}, data: {use: digits}}, "
                'or {task: {use: "file.py:build"}}; a Trainer of transformers goes in as it is: '
                '{trainer: {use: "train.py:make_trainer"}}'
            )
        return self

    @model_validator(mode="after")
    def _bare_names_are_built_in(self) -> Self:
        for key, given in (("model.use", self.model), ("data.use", self.data), ("loss", self.loss)):
            if given is not None:
                require_known(key, given)
        for metric in self.metrics:
            require_known("metrics", metric)
        if self.curriculum is not None:
            require_known("curriculum.use", self.curriculum.use)
        return self

    @model_validator(mode="after")
    def _parts_that_go_together(self) -> Self:
        check_combinations(self)
        return self
