"""What the three training loops share: options, device, and the loop itself."""

import argparse
import itertools

import torch
from torch.utils.data import DataLoader

from shice_steps import Steps, timed


WARM_UP_STEPS = 2
PRECISIONS = "default", "fp32", "tf32", "fp16", "bf16"
GPUS_ONLY = "tf32", "fp16"


def options(description, batch_size, workers, epochs=5, steps=None, accumulate=1, precisions=PRECISIONS):
    """The options that all loops have; they are called as those of `shice-workloads`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="auto", help="cpu, cuda:N, or auto: the first GPU, else the CPU")
    parser.add_argument("--batch-size", type=positive, default=batch_size)
    parser.add_argument("--steps", type=positive, help=f"end after so many optimizer steps [default: {steps or 'by epochs'}]")
    parser.add_argument("--epochs", type=positive, help=f"passes over the data [default: {epochs}, or as --steps needs]")
    parser.set_defaults(default_epochs=epochs, default_steps=steps)
    parser.add_argument("--workers", type=int, default=workers, help="worker processes that load data; 0 loads inline")
    parser.add_argument("--accumulate", type=positive, default=accumulate,
                        help="batches whose gradients are added up to one step")
    parser.add_argument("--precision", choices=precisions, default="default", help="numbers to compute with")
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
    set_precision(arguments.precision, device)
    settings = {
        "device": device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "batch_size": arguments.batch_size,
        "accumulate": arguments.accumulate,
        "precision": told(arguments.precision, device),
        "workers": arguments.workers,
        "seed": arguments.seed,
        # A GPU takes a step's work while the CPU goes on: the step's end is when it was handed over.
        "step_clock": "enqueue" if device.type == "cuda" else "complete",
    }
    for name, value in settings.items():
        steps.setting(name, value)
    return steps, device


def set_precision(asked, device):
    """Refuses what the device has not, and allows TF32 or forbids it where that is asked for."""
    if device.type == "cpu" and asked in GPUS_ONLY:
        raise SystemExit(f"the CPU has no {asked} here; give --precision fp32 or bf16, or a GPU as --device")
    if asked in ("fp32", "tf32"):
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = asked == "tf32"


def told(asked, device):
    """What the precision became, in the words of `shice-workloads`."""
    if asked in ("fp16", "bf16"):
        return {"fp16": "float16 by autocast, weights in float32, dynamic loss scaling",
                "bf16": "bfloat16 by autocast, weights in float32"}[asked]
    if device.type == "cpu":
        return "float32"
    return {"default": "float32 (convolutions may use TF32)", "fp32": "float32 (no TF32)",
            "tf32": "float32 (convolutions and matrix products may use TF32)"}[asked]


def batches(arguments, device, samples):
    """The samples in shuffled batches, in pinned memory for a GPU."""
    if arguments.batch_size * arguments.accumulate > len(samples):
        raise SystemExit(f"a step of {arguments.accumulate} batches of {arguments.batch_size} is more than the "
                         f"{len(samples)} samples that there are; give a smaller --batch-size or --accumulate")
    return DataLoader(samples, arguments.batch_size, shuffle=True, num_workers=arguments.workers,
                      pin_memory=device.type == "cuda")


class Learner:
    """What a step is: batches whose gradients are added up, then one update of the weights."""

    def __init__(self, arguments, device, optimizer, loss_of, before_update=None):
        self.optimizer, self.loss_of, self.before_update, self.device = optimizer, loss_of, before_update, device
        self.kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(arguments.precision)
        # With float16 gradients would vanish, were the loss not scaled up before them; older versions have it elsewhere.
        scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
        self.scaler = scaler() if arguments.precision == "fp16" else None

    def add(self, batch, weight):
        """Adds the gradients of a batch, whose mean loss counts `weight` in its step; gives that loss, unread."""
        batch = [tensor.to(self.device, non_blocking=True) for tensor in batch]
        with torch.autocast(self.device.type, dtype=self.kind or torch.bfloat16, enabled=self.kind is not None):
            loss = self.loss_of(*batch) * weight
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        return loss.detach()

    def update(self):
        """Moves the weights, and forgets the gradients."""
        if self.before_update:
            self.before_update()
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad()


def classifier(arguments, network, device):
    """A network that tells images apart, by Adam with a learning rate of 0.001."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    return Learner(arguments, device, optimizer,
                   lambda pixels, labels: torch.nn.functional.cross_entropy(network(pixels), labels))


def planned(arguments, loader):
    """The epoch of each step, its number of samples, and its batches with their waits: of all epochs, or of as many as
    the steps need."""
    most = arguments.steps or (None if arguments.epochs else arguments.default_steps)
    epochs = range(arguments.epochs) if arguments.epochs else itertools.count() if most else range(arguments.default_epochs)
    whole = arguments.batch_size * arguments.accumulate

    def all_of_them():
        for epoch in epochs:
            of_epoch = timed(loader)
            for left in range(len(loader.dataset), 0, -whole):
                yield epoch, min(left, whole), itertools.islice(of_epoch, arguments.accumulate)

    return itertools.islice(all_of_them(), most)


def train(arguments, steps, loader, learner):
    """Has the learner take each step, and tells it; ends with the last loss."""
    steps.phase("train")
    step, loss = 0, None
    for epoch, samples, its_batches in planned(arguments, loader):
        loss, data_wait_ns = 0, 0
        for batch, wait in its_batches:
            # Each sample counts the same, also in a last batch that is smaller.
            loss = loss + learner.add(batch, len(batch[0]) / samples)
            data_wait_ns += wait
        learner.update()
        if step + 1 == WARM_UP_STEPS:
            # Waits for a GPU: the rate is taken from here to the end of training.
            loss.item()
        steps.step(step, samples=samples, data_wait_ns=data_wait_ns, epoch=epoch)
        step += 1
    # Reading a value waits for a GPU that is still at work.
    last = loss.item() if loss is not None else float("nan")
    steps.phase("end")
    print(f"{step} steps, last loss {last:.3f}")
