"""Built-in models. Sizes of input and output come from the data."""

from trainwright.trainer.models.cnn import CNN
from trainwright.trainer.models.gpt import GPT
from trainwright.trainer.models.mlp import MLP
from trainwright.trainer.models.resnet import ResNet

__all__ = ["CNN", "GPT", "MLP", "ResNet"]
