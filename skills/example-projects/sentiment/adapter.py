"""A convolutional network for texts (Kim 2014, CNN-rand): three tokens at a time, the strongest answer anywhere."""

import torch


class TextCNN(torch.nn.Module):
    """Tokens (batch, time) and their mask, the same, to logits (batch, classes)."""

    def __init__(self, vocab_size: int, classes: int = 3, width: int = 64, filters: int = 128) -> None:
        super().__init__()
        self.embed, self.look = torch.nn.Embedding(vocab_size, width), torch.nn.Conv1d(width, filters, 3, padding=1)
        self.out = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(filters, classes))
        torch.nn.init.normal_(self.embed.weight, std=0.1)  # with the usual 1 it learns half as much

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the logits; padding counts as nothing."""
        words = self.look((self.embed(input_ids) * attention_mask.unsqueeze(2)).transpose(1, 2))
        return self.out((torch.relu(words) * attention_mask.unsqueeze(1)).amax(dim=2))  # type: ignore[no-any-return]
