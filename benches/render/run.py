#!/usr/bin/env python3
"""Measures what rendering costs: CPU time and peak memory of the whole program, all statistics and charts included.

Usage: benches/render/run.py [--runs N] [NAME …]      (make bench-render)

Prints Markdown. Traces are generated below target/ (2 GB at most at a time) and removed again. The names are those of
TRACES; all of them take some minutes. CPU time is user and system time of all threads, the least of N measurements.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
SHICE = os.environ.get("SHICE", TOP / "target/release/shice")
FOLDER = TOP / "target/bench-render"

MACHINE = {"cores": 128, "processes": 16, "gpus": 8}
# Runs, seconds of each, what differs from the small machine, and the most that it may cost: CPU seconds and megabytes.
TRACES = {
    "10k": (1, 100, {}, 0.2, None),
    "100k": (1, 1_000, {}, 0.5, None),
    "10m": (10, 10_000, {}, 3.0, 400),
    "6h": (1, 6 * 3600, MACHINE, None, None),
    "24h": (1, 24 * 3600, MACHINE, None, None),
    "100-runs": (100, 600, {"distinct": 10}, None, None),
    "1000-runs": (1000, 600, {"distinct": 10}, None, None),
}


def generator():
    """Builds it with the flags of the Makefile, so that nothing else is built anew."""
    flags = os.environ.get("CARGO_FLAGS", "--release --features torch").split()
    command = ["cargo", "build", *flags, "--bench", "render", "--message-format=json"]
    told = subprocess.run(command, cwd=TOP, check=True, capture_output=True, text=True).stdout
    artifacts = [json.loads(line) for line in told.splitlines()]
    found = [one["executable"] for one in artifacts if one.get("target", {}).get("name") == "render"]
    return [path for path in found if path][-1]


def rows(runs, seconds, machine):
    """Rows of the tables with one or more rows a tick: host, cgroup, core, process_sample and gpu."""
    cores, processes, gpus = (machine.get(key, least) for key, least in [("cores", 2), ("processes", 4), ("gpus", 2)])
    working = processes if processes <= 8 else processes // 2
    each_tick = 2 + working + gpus + (cores if cores <= 32 else 0)
    each_second = processes - working + (cores if cores > 32 else 0)
    return runs * seconds * (10 * each_tick + each_second)


def rendered():
    """CPU seconds and peak megabytes of one rendering."""
    out = FOLDER / "site"
    shutil.rmtree(out, ignore_errors=True)
    process = subprocess.Popen([SHICE, "render", FOLDER / "traces", "--out", out], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit("shice render failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("names", nargs="*")
    arguments = arguments.parse_args()
    program = generator()
    print("| trace | runs | each | rows | tables | CPU | at most | peak memory | at most |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (runs, seconds, machine, most_cpu, most_mb) in TRACES.items():
        if arguments.names and name not in arguments.names:
            continue
        shutil.rmtree(FOLDER, ignore_errors=True)
        options = {"runs": runs, "seconds": seconds, **machine}
        words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
        subprocess.run([program, FOLDER / "traces", *words], check=True)
        tables = sum(table.stat().st_size for table in FOLDER.glob("**/*.parquet")) / 1e6
        measured = [rendered() for _ in range(arguments.runs)]
        cpu, peak = min(cpu for cpu, _ in measured), min(peak for _, peak in measured)
        targets = [f"{most_cpu:.1f} s" if most_cpu else "–", f"{most_mb} MB" if most_mb else "–"]
        cells = [name, runs, f"{seconds} s", f"{rows(runs, seconds, machine) / 1e6:.2f} M", f"{tables:.0f} MB"]
        cells += [f"{cpu:.2f} s", targets[0], f"{peak:.0f} MB", targets[1]]
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)


main()
