"""A LightningModule with its data module, and the lightning.Trainer that the user gave it."""
