"""Objectives: the minimised losses, the options of each, and how it is built. Free of torch, which `build` imports.

Validation and test stay plain, so that runs under different objectives can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from trainwright.trainer.base.section import (
    Entry,
    Fraction,
    ImpossibleError,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    Probability,
    Section,
    Width,
    union_of,
)
from trainwright.trainer.catalog.names import require_arguments, require_known, with_arguments
from trainwright.trainer.losses import LOSSES

if TYPE_CHECKING:
    from trainwright.trainer.objectives.objective import Built, Objective, Setup, Work


class ObjectiveBase(Section):
    """Properties of every objective beside its options."""

    name: str
    replaces: ClassVar[bool] = False
    """Whether it takes the place of the plain loss, and reads the model's output itself."""
    mixes: ClassVar[bool] = False
    """Whether it learns from one target for each sample, which `mixing` can mix."""
    scales: ClassVar[bool] = False
    """Whether `target_scaling` can scale the targets of its loss."""
    measures: ClassVar[tuple[str, ...]] = ()
    """Keys that also decide the measures on validation."""

    def can_scale(self) -> bool:
        """Return whether it does so with these options."""
        return self.scales

    @property
    def model_outputs(self) -> int | None:
        """How many outputs a built-in model gets; None where data and loss say it."""
        return None

    def check_metrics(self, metrics: list[Any]) -> None:
        """Raise ValueError for metrics of predictions that the objective does not make."""

    def prepare(self, work: Work) -> None:
        """Set the objective's parts of the work, before the model is called for the first time."""
        if self.replaces:
            work.returns, work.loss = "output", None

    def build(self, plain: Objective, setup: Setup) -> Built:
        """Return the objective around the plain one, or in its place. Raises ConfigurationError where it cannot."""
        raise NotImplementedError


class SupervisedSection(ObjectiveBase):
    """The plain loss of model and data, or the task's step."""

    name: Literal["supervised"] = "supervised"
    mixes = True
    scales = True

    def build(self, plain: Objective, setup: Setup) -> Built:  # noqa: ARG002 - needs nothing else
        """Return the plain objective."""
        from trainwright.trainer.objectives.objective import Built

        return Built(plain, plain)


class AugmentationSection(Section):
    """How a view of a sample is drawn. Keys of images are refused for flat inputs, `swap` for images."""

    noise: NonNegativeFloat = 0.05
    """Standard deviation of the noise added to every value, in units of the inputs."""
    swap: Probability | None = None
    """Flat inputs: share of the values taken from another sample of the batch (left out: 0.3)."""
    crop: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Images: least share of the side length that a view shows (left out: 0.7)."""
    flip: Fraction = 0.0
    """Images: how often they are mirrored left to right; 0.5 for photographs."""
    rotate_degrees: Annotated[float, Field(ge=0.0, le=180.0)] = 0.0
    """Images: largest turn to either side."""
    jitter: Probability | None = None
    """Images: largest relative change of contrast and brightness (left out: 0.2)."""


class ContrastiveSection(ObjectiveBase):
    """Learn features without labels: two views of a sample are to be alike (NT-Xent; Chen et al. 2020, SimCLR)."""

    name: Literal["contrastive"] = "contrastive"
    replaces = True
    measures = ("linear_probe", "probe_samples", "features")
    temperature: PositiveFloat = 0.5
    augmentation: AugmentationSection = Field(default_factory=AugmentationSection)
    projection: Annotated[list[Width], Field(min_length=1)] = Field(default_factory=lambda: [64, 32])
    """Widths of the head between features and loss; it is trained with the model and not part of it."""
    features: Annotated[str, Field(min_length=1)] | None = None
    """Module whose output are the features; left out: the model's output."""
    outputs: Width = 64
    """Width of a built-in model's output."""
    linear_probe: bool = True
    """Measure linear_probe_accuracy on validation, where there are labels."""
    probe_samples: Annotated[int, Field(ge=10, le=2**40)] = 10_000
    """The most training samples that the probe is fitted on."""
    input: Annotated[str, Field(min_length=1)] | None = None
    """Key of the input that is augmented, in batches that are mappings."""

    @property
    def model_outputs(self) -> int:
        """Width of the features."""
        return self.outputs

    def check_metrics(self, metrics: list[Any]) -> None:
        """Raise ValueError for any metric: features are no predictions."""
        if metrics:
            raise ImpossibleError(
                "objective contrastive makes features, not predictions: leave `metrics` out; linear_probe_accuracy is "
                "measured without it",
                {"metrics": None},
            )

    def build(self, plain: Objective, setup: Setup) -> Built:  # noqa: ARG002 - labels are not learned from
        """Return the loss between views, with its head and the linear probe."""
        from trainwright.trainer.objectives.contrastive import build_contrastive

        return build_contrastive(self, setup)


TaskName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,40}$")]
TAKEN = ("epoch", "robust", "linear_probe")
"""With `_loss` or `_accuracy` after them, these are names of other measures."""


class TaskPartSection(Section):
    """One of several tasks: which output, which target, which loss."""

    outputs: Width
    """Values per sample: the classes of cross_entropy, else the numbers to predict."""
    loss: Annotated[str | Entry, AfterValidator(with_arguments("loss"))] = "cross_entropy"
    target: NonNegativeInt | Annotated[str, Field(min_length=1)] | None = None
    """First column in a target tensor, or key in the batch; left out: the next columns, or the task's name."""
    weight: PositiveFloat = 1.0
    metrics: list[str] = Field(default_factory=list)
    """Built-in metrics of this task, measured as <task>_<metric>."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: list[str]) -> list[str]:
        for metric in metrics:
            require_known("metrics", metric, "objective.tasks.*.metrics")
            if ":" in metric:
                raise ValueError(f"a task takes built-in metrics; put your own, {metric!r}, under `metrics`")
        return metrics

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, loss: str | Entry) -> str | Entry:
        name = loss if isinstance(loss, str) else loss.use
        fitting = [fit for fit, section in LOSSES.items() if section.of_a_task]
        if name not in fitting:
            raise ValueError(f"a task takes one of {', '.join(fitting)}")
        return loss


class MultiTaskSection(ObjectiveBase):
    """Several targets of one model (Caruana 1997), their losses weighted."""

    name: Literal["multi_task"] = "multi_task"
    replaces = scales = True
    measures = ("tasks",)
    tasks: Annotated[dict[TaskName, TaskPartSection], Field(min_length=2)]
    """In the order of the model's outputs."""
    weighting: Literal["uncertainty", "fixed"] = "uncertainty"
    """uncertainty: learned with the model (Kendall, Gal and Cipolla 2018, arXiv:1705.07115)."""
    learning_rate_factor: PositiveFloat = 10.0
    """Rate of the learned weights, as a share of optimizer.learning_rate."""

    @model_validator(mode="after")
    def _one_way_to_weigh(self) -> Self:
        weighted = [name for name, task in self.tasks.items() if task.weight != 1.0]
        if self.weighting == "uncertainty" and weighted:
            raise ValueError(
                f"objective.tasks.{weighted[0]}.weight has a meaning only with objective.weighting fixed; "
                "uncertainty learns the weights"
            )
        return self

    @model_validator(mode="after")
    def _distinct_names_and_targets(self) -> Self:
        taken = [name for name in self.tasks if name in TAKEN]
        if taken:
            raise ValueError(f"objective.tasks: {taken[0]!r} would be taken for another measure; rename the task")
        if len({type(task.target) for task in self.tasks.values()}) > 1:
            raise ValueError("give every task a `target` of one kind: column numbers, keys, or none at all")
        return self

    def can_scale(self) -> bool:
        """Return whether all tasks predict numbers that stand side by side."""
        names = {task.loss if isinstance(task.loss, str) else task.loss.use for task in self.tasks.values()}
        is_named = any(isinstance(task.target, str) for task in self.tasks.values())
        return not is_named and all(LOSSES[name].task == "regression" for name in names)

    @property
    def model_outputs(self) -> int:
        """Outputs of all tasks."""
        return sum(task.outputs for task in self.tasks.values())

    def check_metrics(self, metrics: list[Any]) -> None:
        """Raise ValueError for a built-in metric that names no task."""
        built_in = [metric for metric in metrics if isinstance(metric, str) and ":" not in metric]
        if built_in:
            others = [metric for metric in metrics if metric not in built_in]
            raise ImpossibleError(
                f"`metrics` {built_in} fit no single task: write them under the task they belong to, "
                "objective.tasks.<name>.metrics",
                {"metrics": others or None, f"objective.tasks.{next(iter(self.tasks))}.metrics": built_in},
            )

    def prepare(self, work: Work) -> None:
        """Measure each task's loss and metrics too."""
        from trainwright.trainer.objectives.multi_task import add_metrics

        super().prepare(work)
        add_metrics(self, work)

    def build(self, plain: Objective, setup: Setup) -> Built:  # noqa: ARG002 - each task has its own loss
        """Return the weighted losses of the tasks, with the weights that are learned."""
        from trainwright.trainer.objectives.multi_task import build_multi_task

        return build_multi_task(self, setup)


AttackSteps = Annotated[int, Field(ge=1, le=1000)]
"""Each costs a forward and a backward pass."""
ClipRange = Annotated[tuple[float, float], Field(strict=False)]


class TeacherSection(Section):
    """The network that is imitated. It is frozen, and its weights are read from safetensors only."""

    weights: Annotated[str, Field(min_length=1)] | None = None
    """Safetensors file, or the folder of an export or a checkpoint that holds one; under code_root."""
    use: Annotated[str, Field(min_length=1)] | None = None
    """Built-in model or entry; left out, that of the configuration beside the weights."""
    args: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _something_to_learn_from(self) -> Self:
        if self.use is None and self.weights is None:
            raise ValueError("objective.teacher needs `weights` (the folder of an export is enough), or `use`")
        if self.use is not None:
            require_known("model.use", self.use, "objective.teacher.use")
            require_arguments("model.use", self)
            if ":" not in self.use and self.weights is None:
                raise ValueError("a built-in teacher without objective.teacher.weights knows nothing: name its weights")
        if self.use is None and self.args:
            raise ValueError("objective.teacher.args has a meaning only with objective.teacher.use")
        return self


class FeatureSection(Section):
    """Two modules whose outputs are to be alike; where the widths differ, the student's goes through a learned map."""

    student: Annotated[str, Field(min_length=1)]
    teacher: Annotated[str, Field(min_length=1)]
    weight: PositiveFloat = 1.0


class DistillationSection(ObjectiveBase):
    """Learn from a teacher's outputs too: Hinton, Vinyals and Dean 2015, arXiv:1503.02531."""

    name: Literal["distillation"] = "distillation"
    mixes = True
    teacher: TeacherSection
    temperature: PositiveFloat = 4.0
    """Softens both networks' probabilities; without effect where a number is predicted."""
    soft_weight: NonNegativeFloat = 0.9
    """Of the difference from the teacher."""
    hard_weight: NonNegativeFloat = 0.1
    """Of the plain loss."""
    features: list[FeatureSection] = Field(default_factory=list)
    """Inner layers to imitate: Romero et al. 2015, arXiv:1412.6550."""

    @model_validator(mode="after")
    def _the_teacher_counts(self) -> Self:
        if self.soft_weight == 0.0 and not self.features:
            raise ValueError("objective.soft_weight 0 without objective.features leaves the teacher no part")
        return self

    def build(self, plain: Objective, setup: Setup) -> Built:
        """Return the plain loss with the difference from the teacher, and the maps between their layers."""
        from trainwright.trainer.objectives.distillation import build_distillation

        return build_distillation(self, plain, setup)


class AdversarialSection(ObjectiveBase):
    """Train on the worst inputs near the given ones: Madry et al. 2018, arXiv:1706.06083.

    Distances are in units of the model's inputs, after any standardisation, in the maximum norm.
    """

    name: Literal["adversarial"] = "adversarial"
    mixes = True
    scales = True
    measures = ("epsilon", "evaluation_steps", "clip_range", "input")
    attack: Literal["pgd", "fgsm"] = "pgd"
    """fgsm: one step of size epsilon (Goodfellow et al. 2015, arXiv:1412.6572)."""
    epsilon: PositiveFloat
    """Largest change of an input value."""
    steps: AttackSteps = 7
    """Of pgd."""
    step_size: PositiveFloat | None = None
    """Of pgd; left out: 2.5 * epsilon / steps."""
    random_start: bool = True
    """Of pgd: begin anywhere within epsilon."""
    clip_range: ClipRange | None = None
    """Lowest and highest value that an input may have."""
    clean_weight: Fraction = 0.0
    """Share of the loss on the inputs as they are."""
    evaluation_steps: AttackSteps = 20
    """Of the pgd attack that measures validation."""
    input: Annotated[str, Field(min_length=1)] | None = None
    """Key of the attacked input in batches that are mappings; left out: the one input of floating point."""

    @property
    def evaluation_step_size(self) -> float:
        """Size of a step of the attack that measures validation."""
        return 2.5 * self.epsilon / self.evaluation_steps

    @model_validator(mode="after")
    def _a_range_from_low_to_high(self) -> Self:
        if self.clip_range is not None and not self.clip_range[0] < self.clip_range[1]:
            raise ImpossibleError(
                f"objective.clip_range must be [low, high] with low < high, got {list(self.clip_range)}",
                {"objective.clip_range": sorted(self.clip_range)},
                {"objective.clip_range": None},
            )
        if self.clean_weight == 1.0:
            raise ImpossibleError(
                "objective.clean_weight 1 leaves the attack no part: set objective.name supervised",
                {"objective": {"name": "supervised"}},
            )
        return self

    def build(self, plain: Objective, setup: Setup) -> Built:
        """Return the plain loss under attack, and the measure of robustness."""
        from trainwright.trainer.objectives.adversarial import build_adversarial

        return build_adversarial(self, plain, setup)


OBJECTIVES: tuple[type[ObjectiveBase], ...] = (
    SupervisedSection,
    DistillationSection,
    AdversarialSection,
    ContrastiveSection,
    MultiTaskSection,
)
"""Every objective: a new one is its section and a line here."""
DEFAULT_OBJECTIVE = "supervised"
MEASURING = ("name", *(key for objective in OBJECTIVES for key in objective.measures))
"""Keys that also decide the measures on validation: the attack, the tasks, the probe."""

if TYPE_CHECKING:
    ObjectiveSection = ObjectiveBase
else:
    ObjectiveSection = union_of(OBJECTIVES, DEFAULT_OBJECTIVE)
