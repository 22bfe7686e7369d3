#!/usr/bin/env python3
"""Measures what recording costs, beside a C program that only reads the same files, and beside the peers that are there.

Usage: benches/recorder/run.py [--seconds S] [--runs N]      (make bench)

Prints Markdown. A parent with four children of 50 MB each is observed: busy 8 % of the time (light), or always (full).
CPU time is of the span in which samples are taken; start and finishing are not in it. Quiet machines give quiet figures.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SHICE = os.environ.get("SHICE", HERE.parent.parent / "target/release/shice")
MEGABYTES = "50"


def build(folder, name):
    program = folder / name
    subprocess.run(["cc", "-O2", "-o", program, HERE / f"{name}.c"], check=True)
    return program


def group_files(folder, load):
    """The control groups' files that the recorder holds; where it makes a group for the run, those of one made alike."""
    recorder = subprocess.Popen(recording(100, load, tempfile.mkdtemp(dir=folder)), stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    held = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{recorder.pid}/fd").iterdir()]
    recorder.wait()
    made, files = [], []
    for path in [pathlib.Path(path) for path in held if path.startswith("/sys/fs/cgroup/")]:
        if path.parent.name.startswith("shice-"):
            path = path.parent.parent / f"floor-{os.getpid()}" / path.name
            if not path.parent.exists():
                path.parent.mkdir()
                made.append(path.parent)
        files.append(str(path))
    return ":".join(files), made


def recording(interval_ms, load, out):
    command = [SHICE, "record", "--env", "bench", "--out", out, "--repeats", "1", "--no-gpu", "--steps", "off"]
    return [*command, "--interval", f"{interval_ms}ms", "--workload", "load", "--", *load]


def floor(program, interval_ms, seconds, files, load):
    command = [program, str(interval_ms * 1000), str(seconds), files, *load]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ticks, missed = told["ticks"], told["missed_ticks"]
    return {"cpu_ms": told["cpu_ns"] / 1e6 / ticks, "missed": missed / (ticks + missed)}


def shice(interval_ms, load, folder):
    out = tempfile.mkdtemp(dir=folder)
    subprocess.run(recording(interval_ms, load, out), check=True, capture_output=True)
    run = next(pathlib.Path(out).glob("**/run.json"))
    cost = json.loads(run.read_text())["recorder"]
    ticks, missed, memory_ns = cost["ticks"], cost["missed_ticks"], cost["memory_probe_cpu_ns"] or 0
    tables = list(run.parent.glob("*.parquet"))
    return {
        "cpu_ms": (cost["cpu_ns"] - memory_ns) / 1e6 / ticks,
        "memory_share": memory_ns / 1e6 / (ticks * interval_ms),
        "missed": missed / (ticks + missed),
        "peak_mb": cost["memory_peak_bytes"] / 1e6,
        "bytes": sum(table.stat().st_size for table in tables),
        "values": values(tables),
    }


def values(tables):
    """Stored values that are not null, where a reader of Parquet is there to count them."""
    try:
        import polars
    except ImportError:
        return None
    return sum(sum(polars.read_parquet(table).count().row(0)) for table in tables)


def peer(command, interval_ms, load, seconds):
    """CPU time of a peer that attaches to the load, for each sample that its schedule asks for; its start is in it."""
    process = subprocess.Popen(load)
    time.sleep(0.3)
    command = [word.replace("PID", str(process.pid)).replace("INTERVAL", f"{interval_ms / 1000:g}") for word in command]
    watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.wait()
    time.sleep(0.3)
    watcher.terminate()
    _, _, usage = os.wait4(watcher.pid, 0)
    return {"cpu_ms": (usage.ru_utime + usage.ru_stime) * 1e3 / (seconds * 1000 / interval_ms)}


PEERS = {
    "top -b": ["top", "-b", "-d", "INTERVAL", "-p", "PID"],
    "psrecord": ["psrecord", "PID", "--include-children", "--interval", "INTERVAL", "--log", "/dev/null"],
}


def median(runs, key):
    found = [run[key] for run in runs if run.get(key) is not None]
    return statistics.median(found) if found else None


def row(name, interval_ms, runs, base):
    cells = [name, f"{interval_ms} ms", f"{median(runs, 'cpu_ms'):.2f} ms"]
    cells.append(f"{median(runs, 'cpu_ms') / base:.2f}" if base else "–")
    missed, share, peak = median(runs, "missed"), median(runs, "memory_share"), median(runs, "peak_mb")
    cells.append("–" if missed is None else f"{missed:.2%}")
    cells.append("–" if share is None else f"{share:.2%}")
    cells.append("–" if peak is None else f"{peak:.1f} MB")
    counted = [run["bytes"] / run["values"] for run in runs if run.get("values")]
    cells.append(f"{statistics.median(counted):.2f}" if counted else "–")
    print("| " + " | ".join(cells) + " |", flush=True)


def measure(asked, folder, program, load, files):
    for duty, title in [(8, "light load"), (100, "full load")]:
        print(f"\n{title}\n\n| recorder | interval | CPU a tick | × floor | ticks missed | PSS, of a core | peak memory | bytes a value |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        # The load outlives the floor, which is to see it to the end of its time.
        observed = [load, str(asked.seconds), MEGABYTES, str(duty)]
        for interval_ms in [100, 10]:
            floors, ours = [], []
            for _ in range(asked.runs):
                floors.append(floor(program, interval_ms, asked.seconds - 0.5, files, observed))
                ours.append(shice(interval_ms, observed, folder))
            base = median(floors, "cpu_ms")
            row("floor in C", interval_ms, floors, None)
            row("shice", interval_ms, ours, base)
            for name, command in PEERS.items():
                if shutil.which(command[0]):
                    runs = [peer(command, interval_ms, observed, asked.seconds) for _ in range(asked.runs)]
                    row(name, interval_ms, runs, base)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program, load = build(folder, "floor"), build(folder, "load")
        files, made = group_files(folder, [str(load), "3", "1", "1"])
        try:
            measure(asked, folder, program, str(load), files)
        finally:
            for group in made:
                group.rmdir()


main()
