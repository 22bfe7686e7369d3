"""What the three training loops share: options, device, and the loop itself."""

import argparse
import itertools

import torch
from torch.utils.data import DataLoader

from shice_steps import Steps, timed


WARM_UP_STEPS = 2


def options(description, batch_size, workers, epochs=5, steps=None):
    """The options that all loops have; they are called as those of `shice-workloads`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="auto", help="cpu, cuda:N, or auto: the first GPU, else the CPU")
    parser.add_argument("--batch-size", type=positive, default=batch_size)
    parser.add_argument("--steps", type=positive, help=f"end after so many optimizer steps [default: {steps or 'by epochs'}]")
    parser.add_argument("--epochs", type=positive, help=f"passes over the data [default: {epochs}, or as --steps needs]")
    parser.set_defaults(default_epochs=epochs, default_steps=steps)
    parser.add_argument("--workers", type=int, default=workers, help="worker processes that load data; 0 loads inline")
    parser.add_argument("--threads", type=positive, help="threads that PyTorch computes with")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def positive(text):
    """A whole number above 0."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def begin(arguments):
    """Seeds and chooses the device, and tells the settings."""
    steps = Steps()
    steps.phase("setup")
    torch.manual_seed(arguments.seed)
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    name = arguments.device
    if name == "auto":
        name = "cuda:0" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    settings = {
        "device": device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "batch_size": arguments.batch_size,
        "workers": arguments.workers,
        "seed": arguments.seed,
        # A GPU takes a step's work while the CPU goes on: the step's end is when it was handed over.
        "step_clock": "enqueue" if device.type == "cuda" else "complete",
    }
    for name, value in settings.items():
        steps.setting(name, value)
    return steps, device


def batches(arguments, device, samples):
    """The samples in shuffled batches, in pinned memory for a GPU."""
    return DataLoader(samples, arguments.batch_size, shuffle=True, num_workers=arguments.workers,
                      pin_memory=device.type == "cuda")


def classifier_step(network, device):
    """One step of a network that tells images apart, by Adam with a learning rate of 0.001."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def step(batch):
        pixels, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(pixels), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def planned(arguments, loader):
    """The epoch, batch and wait of each step: of all epochs, or of as many as the steps need."""
    most = arguments.steps or (None if arguments.epochs else arguments.default_steps)
    epochs = range(arguments.epochs) if arguments.epochs else itertools.count() if most else range(arguments.default_epochs)
    all_of_them = ((epoch, batch, wait) for epoch in epochs for batch, wait in timed(loader))
    return itertools.islice(all_of_them, most)


def train(arguments, steps, loader, train_step):
    """Runs `train_step` on each batch and tells each step; ends with the last loss."""
    steps.phase("train")
    step, loss = 0, None
    for epoch, batch, data_wait_ns in planned(arguments, loader):
        loss = train_step(batch)
        if step + 1 == WARM_UP_STEPS:
            # Waits for a GPU: the rate is taken from here to the end of training.
            loss.item()
        steps.step(step, samples=len(batch[0]), data_wait_ns=data_wait_ns, epoch=epoch)
        step += 1
    # Reading a value waits for a GPU that is still at work.
    last = loss.item() if loss is not None else float("nan")
    steps.phase("end")
    print(f"{step} steps, last loss {last:.3f}")
