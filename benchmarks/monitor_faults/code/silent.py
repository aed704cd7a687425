"""Tasks as users write them, each with one silent error: nothing is raised, and another thing is trained than meant."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

INPUTS, CLASSES, ROWS = 8, 3, 256


def blobs(seed, rows, shift=4.0, spread=2.0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(CLASSES, INPUTS)) * 1.5
    labels = rng.integers(0, CLASSES, rows)
    inputs = centres[labels] + rng.normal(size=(rows, INPUTS))
    return torch.tensor(inputs * spread + shift, dtype=torch.float32), torch.tensor(labels)


def scaled(inputs):
    return (inputs - 4.0) / 4.0


def splits(seed):
    (x, y), (vx, vy) = blobs(seed, ROWS), blobs(seed + 1000, ROWS // 2)
    return TensorDataset(scaled(x), y), TensorDataset(scaled(vx), vy)


class Net(nn.Module):
    def __init__(self, outputs=CLASSES):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(INPUTS, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.ReLU())
        self.head = nn.Linear(16, outputs)

    def forward(self, x):
        return self.head(self.encoder(x))


def plain_step(model, batch, context):
    x, y = batch
    logits = model(x)
    return {"loss": F.cross_entropy(logits, y), "output": logits, "target": y}


def task(seed, model=None, **parts):
    train, validation = splits(seed)
    return {"model": model or Net(), "train": train, "validation": validation, "batch_size": 32, **parts}


def own_loop(seed, train_step, optimizer=None, model=None, **parts):
    model = model or Net()
    optimizer = optimizer(model) if optimizer else torch.optim.SGD(model.parameters(), lr=0.1)
    return task(
        seed, model, optimizers=optimizer, validation_step=plain_step,
        train_step=lambda model, batch, context: train_step(model, batch, optimizer, context), **parts,
    )  # fmt: skip


# steps of optimizers


def zero_grad_missing(config, context):
    def train_step(model, batch, optimizer, context):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        return loss

    return own_loop(context.seed, train_step)


def zero_grad_before_step(config, context):
    def train_step(model, batch, optimizer, context):
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        return loss

    return own_loop(context.seed, train_step)


def step_missing(config, context):
    def train_step(model, batch, optimizer, context):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        return loss

    return own_loop(context.seed, train_step)


def good_step(model, batch, optimizer, context):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


def only_the_head(config, context):
    return own_loop(context.seed, good_step, lambda model: torch.optim.Adam(model.head.parameters(), lr=0.01))


def head_replaced_after_optimizer(config, context):
    def optimizer(model):
        made = torch.optim.Adam(model.parameters(), lr=0.01)
        model.head = nn.Linear(16, CLASSES)
        return made

    return own_loop(context.seed, good_step, optimizer)


def clipped_to_nothing(config, context):
    def train_step(model, batch, optimizer, context):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-6)
        optimizer.step()
        return loss

    return own_loop(context.seed, train_step)


def scheduler_each_step(config, context):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)  # meant by epoch

    def train_step(model, batch, context):
        loss = good_step(model, batch, optimizer, context)
        scheduler.step()
        return loss

    return task(context.seed, model, optimizers=optimizer, train_step=train_step, validation_step=plain_step)


def cosine_of_epochs(config, context):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)  # epochs, and stepped by batch

    def train_step(model, batch, context):
        loss = good_step(model, batch, optimizer, context)
        scheduler.step()
        return loss

    return task(context.seed, model, optimizers=optimizer, train_step=train_step, validation_step=plain_step)


def rate_zero(config, context):
    return own_loop(context.seed, good_step, lambda model: torch.optim.Adam(model.parameters(), lr=0.01 // 1))


# graphs


def layers_in_a_list(config, context):
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(INPUTS, 32), nn.Linear(32, 32)]
            self.head = nn.Linear(32, CLASSES)

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.head(x)

    return task(context.seed, Listed(), step=plain_step)


def features_detached(config, context):
    def step(model, batch, context):
        features = model.encoder(batch[0]).detach()
        return {"loss": F.cross_entropy(model.head(features), batch[1])}

    return task(context.seed, step=step)


def encoder_without_gradients(config, context):
    class Extractor(Net):
        @torch.no_grad()
        def features(self, x):
            return self.encoder(x)

        def forward(self, x):
            return self.head(self.features(x))

    return task(context.seed, Extractor(), step=plain_step)


def loss_made_anew(config, context):
    def train_step(model, batch, optimizer, context):
        losses = [F.cross_entropy(model(batch[0]), batch[1]).item()]
        loss = torch.tensor(sum(losses) / len(losses), requires_grad=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return own_loop(context.seed, train_step)


def classes_rounded(config, context):
    class Rounded(Net):
        def forward(self, x):
            return self.head(torch.round(self.encoder(x)))

    return task(context.seed, Rounded(), step=plain_step)


def inputs_ignored(config, context):
    class Masked(Net):
        def forward(self, x):
            mask = (x > 1e9).float()  # should have been "below"
            return super().forward(x * mask)

    return task(context.seed, Masked(), step=plain_step)


# modes


def in_evaluation(config, context):
    def step(model, batch, context):
        model.eval()
        return plain_step(model, batch, context)

    return task(context.seed, step=step)


def left_in_evaluation(config, context):
    held = splits(context.seed)[1]

    def train_step(model, batch, optimizer, context):
        loss = good_step(model, batch, optimizer, context)
        if context.step == 1:
            model.eval()
            with torch.no_grad():
                for x, y in DataLoader(held, batch_size=64):
                    model(x)
        return loss

    return own_loop(context.seed, train_step)


def validated_in_training(config, context):
    def validation_step(model, batch, context):
        model.train()
        return plain_step(model, batch, context)

    return task(context.seed, step=plain_step, validation_step=validation_step)


def dropout_always_on(config, context):
    class Dropping(Net):
        def forward(self, x):
            return self.head(F.dropout(self.encoder(x), 0.3))

    return task(context.seed, Dropping(), step=plain_step)


# losses


def loss_summed(config, context):
    def step(model, batch, context):
        return {"loss": F.cross_entropy(model(batch[0]), batch[1], reduction="sum")}

    return task(context.seed, step=step)


def squares_summed(config, context):
    def step(model, batch, context):
        error = model(batch[0]) - F.one_hot(batch[1], CLASSES)
        return {"loss": (error**2).sum()}

    return task(context.seed, step=step)


def softmax_twice(config, context):
    class Probabilities(Net):
        def forward(self, x):
            return torch.softmax(super().forward(x), dim=1)

    return task(context.seed, Probabilities(), step=plain_step)


def logarithm_missing(config, context):
    def step(model, batch, context):
        return {"loss": F.nll_loss(torch.softmax(model(batch[0]), dim=1), batch[1])}

    return task(context.seed, step=step)


def softmax_over_the_batch(config, context):
    def step(model, batch, context):
        return {"loss": F.nll_loss(F.log_softmax(model(batch[0]), dim=0), batch[1])}

    return task(context.seed, step=step)


def sigmoid_twice(config, context):
    def step(model, batch, context):
        wanted = (batch[1] == 0).float()
        return {"loss": F.binary_cross_entropy_with_logits(torch.sigmoid(model(batch[0])[:, 0]), wanted)}

    return task(context.seed, step=step)


def broadcast_targets(config, context):
    def step(model, batch, context):
        return {"loss": ((model(batch[0]) - batch[1].float()) ** 2).mean()}  # (32, 1) - (32,)

    return task(context.seed, Net(1), step=step)


# data


def labels_permuted(config, context):
    def step(model, batch, context):
        x, y = batch
        y = y[torch.randperm(len(y))]
        return {"loss": F.cross_entropy(model(x), y)}

    return task(context.seed, step=step)


def labels_sorted_by_collate(config, context):
    def collate(samples):
        inputs, labels = zip(*samples, strict=True)
        return torch.stack(inputs), torch.stack(sorted(labels, key=int))

    return task(context.seed, step=plain_step, collate=collate)


def sorted_and_not_shuffled(config, context):
    x, y = blobs(context.seed, ROWS)
    order = y.argsort(stable=True)
    made = task(context.seed, step=plain_step, shuffle=False)
    return {**made, "train": TensorDataset(scaled(x)[order], y[order])}


class Stream(IterableDataset):
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return len(self.labels)

    def __iter__(self):
        return iter(zip(self.inputs, self.labels, strict=True))


def stream_in_one_order(config, context):
    x, y = blobs(context.seed, ROWS)
    return {**task(context.seed, step=plain_step), "train": Stream(scaled(x), y)}


def validation_not_scaled(config, context):
    vx, vy = blobs(context.seed + 1000, ROWS // 2)
    return {**task(context.seed, step=plain_step), "validation": TensorDataset(vx, vy)}


class Scaling(Dataset):
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        row = self.inputs[index]
        row -= 4.0  # in place: the next epoch finds it scaled already
        row /= 4.0
        return row.clone(), self.labels[index]


def scaled_in_place(config, context):
    x, y = blobs(context.seed, ROWS)
    return {**task(context.seed, step=plain_step), "train": Scaling(x, y)}
