"""Built-in models by name: each has its arguments in one class, and a line here. Data and loss give their sizes."""

from trainwright.trainer.models.arguments import (
    CnnArgs,
    DLinearArgs,
    FtTransformerArgs,
    GptArgs,
    MlpArgs,
    ModelSection,
    ResnetArgs,
    TabularResnetArgs,
    UnetArgs,
)
from trainwright.trainer.models.image_library import TimmArgs
from trainwright.trainer.models.transformer import TransformersArgs

MODELS: dict[str, type[ModelSection]] = {
    "mlp": MlpArgs,
    "tabular_resnet": TabularResnetArgs,
    "ft_transformer": FtTransformerArgs,
    "dlinear": DLinearArgs,
    "cnn": CnnArgs,
    "resnet": ResnetArgs,
    "unet": UnetArgs,
    "gpt": GptArgs,
    "transformers": TransformersArgs,
    "timm": TimmArgs,
}
