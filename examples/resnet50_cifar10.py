#!/usr/bin/env python3
"""The twin of the workload `resnet50-cifar10`: ResNet-50 on images of 32×32, made up unless --data names CIFAR-10."""

from pathlib import Path

import torch
import torchvision
from torch.utils.data import Dataset
from torchvision.transforms import v2

import training

MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
RECORD = 1 + 3 * 32 * 32


class Images(Dataset):
    """Images and labels, cropped, flipped and normalised at random."""

    def __init__(self, pixels, labels):
        self.pixels, self.labels = pixels, labels
        self.transform = v2.Compose([
            v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, SPREAD),
        ])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.pixels[index]), self.labels[index]


def cifar10(folder):
    """The training images of CIFAR-10's binary version."""
    parts = []
    for number in range(1, 6):
        path = Path(folder) / f"data_batch_{number}.bin"
        data = path.read_bytes()
        if len(data) != 10_000 * RECORD:
            raise SystemExit(f"{path} has {len(data)} bytes, not {10_000 * RECORD}; fetch the binary version anew")
        parts.append(torch.frombuffer(bytearray(data), dtype=torch.uint8).view(10_000, RECORD))
    records = torch.cat(parts)
    return records[:, 1:].reshape(-1, 3, 32, 32).clone(), records[:, 0].long()


def main():
    """Trains as asked."""
    parser = training.options(__doc__, batch_size=32, workers=4)
    parser.add_argument("--data", help="folder of CIFAR-10's binary version; without it, images are made up")
    parser.add_argument("--images", type=training.positive, default=50_000, help="how many are made up")
    arguments = parser.parse_args()
    steps, device = training.begin(arguments)
    network = torchvision.models.resnet50(weights=None).to(device)

    steps.phase("data")
    steps.setting("data", "cifar10" if arguments.data else "synthetic")
    if arguments.data:
        images = cifar10(arguments.data)
    else:
        count = arguments.images
        images = torch.randint(256, (count, 3, 32, 32), dtype=torch.uint8), torch.randint(10, (count,))
    loader = training.batches(arguments, device, Images(*images))
    training.train(arguments, steps, loader, training.classifier(arguments, network, device))


if __name__ == "__main__":
    main()
