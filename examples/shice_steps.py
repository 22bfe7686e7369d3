"""Tells a recorder what a training loop does: lines of JSON, appended to the file that SHICE_STEPS names (docs/steps.md).

Copy it beside any training script; it needs nothing but Python. Without a recorder nothing is written.
"""

import json
import os
import time


class Steps:
    """The way to whoever records."""

    def __init__(self):
        path = os.environ.get("SHICE_STEPS")
        self._file = open(path, "ab", buffering=0) if path else None

    def _tell(self, kind, **line):
        if self._file:
            line = {"kind": kind, "t_ns": time.monotonic_ns(), **line}
            # One write a line, so that lines of several processes never mix.
            self._file.write(json.dumps(line).encode() + b"\n")

    def phase(self, name):
        """A phase begins; the one before it ends. The times of `train` are the report's training figures."""
        self._tell("phase", phase=name)

    def setting(self, name, value):
        """What a setting became."""
        self._tell("setting", name=name, value=str(value))

    def step(self, step, samples, data_wait_ns, epoch=0, phase="train"):
        """An optimizer step has ended, `data_wait_ns` of it spent waiting for its batch."""
        self._tell("step", phase=phase, epoch=epoch, step=step, samples=samples, data_wait_ns=data_wait_ns)


def timed(batches):
    """Each batch with the nanoseconds that it was waited for."""
    batches = iter(batches)
    while True:
        begin = time.monotonic_ns()
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch, time.monotonic_ns() - begin
