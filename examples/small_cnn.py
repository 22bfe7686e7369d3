#!/usr/bin/env python3
"""The twin of the workload `small-cnn`: a small convolutional network on random 128×128 images."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

import training


def main():
    """Trains as asked."""
    parser = training.options(__doc__, batch_size=64, workers=0)
    parser.add_argument("--images", type=training.positive, default=10_000)
    arguments = parser.parse_args()
    steps, device = training.begin(arguments)
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 32 * 32, 512), nn.ReLU(), nn.Linear(512, 10),
    ).to(device)

    steps.phase("data")
    images = TensorDataset(torch.randn(arguments.images, 3, 128, 128), torch.randint(10, (arguments.images,)))
    loader = training.batches(arguments, device, images)
    training.train(arguments, steps, loader, training.classifier(arguments, network, device))


if __name__ == "__main__":
    main()
