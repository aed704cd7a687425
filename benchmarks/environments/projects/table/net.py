"""A classifier of table rows, as a user has it."""

from torch import nn


class Net(nn.Module):
    """Batch statistics and dropout: both carry something from one step to the next."""

    def __init__(self, columns, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(columns, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 2)
        )

    def forward(self, x):
        return self.layers(x)
