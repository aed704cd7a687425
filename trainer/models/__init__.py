"""Built-in models by name: each has its arguments in one class, and a line here. Data and loss give their sizes."""

from trainwright.trainer.models.arguments import CnnArgs, GptArgs, MlpArgs, ModelSection, ResnetArgs
from trainwright.trainer.models.image_library import TimmArgs
from trainwright.trainer.models.transformer import TransformersArgs

MODELS: dict[str, type[ModelSection]] = {
    "mlp": MlpArgs,
    "cnn": CnnArgs,
    "resnet": ResnetArgs,
    "gpt": GptArgs,
    "transformers": TransformersArgs,
    "timm": TimmArgs,
}
