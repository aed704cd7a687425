"""Built-in models. Sizes of input and output come from the data."""

from trainwright.trainer.models.gpt import GPT
from trainwright.trainer.models.resnet import ResNet
from trainwright.trainer.models.small import CNN, MLP

__all__ = ["CNN", "GPT", "MLP", "ResNet"]
