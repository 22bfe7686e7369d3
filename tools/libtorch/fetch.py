#!/usr/bin/env python3
"""Puts libtorch into target/libtorch, for the programs that are built with the feature `torch`.

    packages/       torch and its CUDA libraries, laid out as in Python's site-packages: their relative search paths hold
    lib/, include/  what the linker and the C++ compiler see: the CPU half only, so that one program runs everywhere
    build-version   read by the build of torch-sys
    stamp.json      written last: the folder is whole, and this is what it was made from

Where the running Python already holds a fitting torch, `packages` is a link to it and nothing is downloaded. Otherwise
wheels are fetched with pip, each checked against the hash pinned beside this script. An interrupted call leaves nothing
that a later one would take for whole; wheels that were finished come from pip's cache then.
"""

import argparse
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target"
LIBTORCH = TARGET / "libtorch"
STAGING = TARGET / "libtorch.new"
WHEELS = STAGING / "wheels"

BASE, CUDA = HERE / "base.txt", HERE / "cuda.txt"
ARCHITECTURES = ("x86_64", "aarch64")
# The wheels are read, not imported: their Python version needs not be the one that runs this script.
PYTHON_TAG = ("3.12", "cp312")
# What the program is linked to.
LINKED = ("libtorch_cpu.so", "libc10.so")
# Libraries that only Python or a GPU needs.
NOT_FOR_CPU = re.compile(r"cuda|python|nvshmem|nvrtc|shm|global_deps|libtorch\.so")
NOT_FOR_RUST = re.compile(r"python|shm\.|global_deps")
# Unpacked libraries plus wheels, with some air.
NEEDED_GB = {False: 2, True: 10}


class Failure(Exception):
    """What went wrong and what to do about it, in one line."""


def recipe():
    """Changes when this script or its pins do."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in (Path(__file__), BASE, CUDA))).hexdigest()


def pinned_version():
    """The version of torch that base.txt pins."""
    return re.search(r"^torch==(\S+)", BASE.read_text(), re.MULTILINE).group(1)


def has_gpu():
    """Whether this machine shows an NVIDIA GPU: a device file, or a driver tool that lists one (WSL has no file)."""
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return True
    if not shutil.which("nvidia-smi"):
        return False
    listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return listing.returncode == 0 and "GPU" in listing.stdout


def installed_packages():
    """The site-packages folder of the running Python, if it holds the pinned torch; torch-sys refuses any other."""
    try:
        torch = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(torch.locate_file("")).resolve()
    fits = torch.version.split("+")[0] == pinned_version() and (folder / "torch/lib/libtorch_cpu.so").exists()
    return folder if fits else None


def is_ready(cuda):
    """Whether an earlier call made what is wanted now, and it is still there."""
    try:
        stamp = json.loads((LIBTORCH / "stamp.json").read_text())
    except (OSError, ValueError):
        return False
    linked = (LIBTORCH / "packages").is_symlink()
    return (
        stamp.get("recipe") == recipe()
        and (linked or stamp.get("cuda") or not cuda)
        and (not linked or installed_packages() == (LIBTORCH / "packages").resolve())
        and all((LIBTORCH / "lib" / name).exists() for name in LINKED)
    )


def download_command(pins, architecture):
    """The call of pip that fetches the wheels of `pins` for `architecture` without their dependencies."""
    # pip takes tags literally: a wheel tagged manylinux_2_25 is not found by one that asks for 2_28 and 2_17 only.
    tags = [f"manylinux_2_{minor}" for minor in range(28, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]
    version, abi = PYTHON_TAG
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(WHEELS)]
    command += ["--python-version", version, "--implementation", "cp", "--abi", abi]
    command += [f"--platform={tag}_{architecture}" for tag in tags]
    return command + [option for path in pins for option in ("--requirement", str(path))]


def download(cuda):
    """Fetches the wheels, after checking what would make that fail late."""
    architecture = platform.machine()
    if platform.system() != "Linux" or architecture not in ARCHITECTURES:
        found = f"{platform.system()} on {architecture}"
        raise Failure(f"no pinned libtorch for {found}; there is one for Linux on {' and '.join(ARCHITECTURES)}")
    free, needed = shutil.disk_usage(TARGET).free / 1e9, NEEDED_GB[cuda]
    if free < needed:
        raise Failure(f"{needed} GB are needed below {TARGET}, where {free:.1f} GB are free; make room there")
    print(f"libtorch: downloading {'2.5 GB, with CUDA' if cuda else '0.55 GB'}, once", flush=True)
    if subprocess.run(download_command([BASE, CUDA] if cuda else [BASE], architecture), check=False).returncode != 0:
        raise Failure("pip could not fetch the pinned wheels (see above); call again when that is mended")


def wanted(name, cuda):
    """Whether the member `name` of a wheel belongs into packages/."""
    if name.startswith("torch/include/"):
        return True
    if not re.fullmatch(r"(torch/lib|torch\.libs|nvidia/.+/lib)/[^/]+\.so[.\d]*", name):
        return False
    file = name.rsplit("/", 1)[1]
    if not name.startswith("torch/lib/"):
        return cuda or not name.startswith("nvidia/") or file.startswith(("libcudart.", "libcupti."))
    return not (NOT_FOR_RUST if cuda else NOT_FOR_CPU).search(file)


def unpack(packages, cuda):
    """Unpacks what is wanted of every wheel."""
    for wheel in sorted(WHEELS.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages, [name for name in archive.namelist() if wanted(name, cuda)])


def lay_out(folder):
    """Makes the linker's view beside packages/."""
    os.symlink("packages/torch/include", folder / "include")
    (folder / "lib").mkdir()
    for name in LINKED:
        os.symlink(f"../packages/torch/lib/{name}", folder / "lib" / name)
    # torch-sys asks for libtorch.so, an empty library that exists to pull in its halves. This one pulls in the CPU half.
    (folder / "lib/libtorch.so").write_text("INPUT(-ltorch_cpu)\n")
    (folder / "build-version").write_text(pinned_version() + "\n")


def check_loads(folder):
    """Loads libtorch in a process of its own, so that a missing library is named here and not by the first run."""
    library = folder / "packages/torch/lib/libtorch_cpu.so"
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    load = subprocess.run([sys.executable, "-c", program, str(library)], capture_output=True, text=True, check=False)
    if load.returncode != 0:
        reason = (load.stderr.strip().splitlines() or [f"exit code {load.returncode}"])[-1]
        raise Failure(f"libtorch cannot be loaded: {reason}")


def build(packages, cuda):
    """Makes the folder aside, from `packages` or from wheels, and puts it in place whole."""
    shutil.rmtree(STAGING, ignore_errors=True)
    STAGING.mkdir(parents=True)
    if packages:
        os.symlink(packages, STAGING / "packages")
    else:
        download(cuda)
        unpack(STAGING / "packages", cuda)
        shutil.rmtree(WHEELS)
    lay_out(STAGING)
    check_loads(STAGING)
    (STAGING / "stamp.json").write_text(json.dumps({"recipe": recipe(), "cuda": cuda}) + "\n")
    shutil.rmtree(LIBTORCH, ignore_errors=True)
    STAGING.rename(LIBTORCH)


def main():
    options = argparse.ArgumentParser(description="Puts libtorch into target/libtorch.")
    help_cuda = "fetch the CUDA libraries too (auto: where there is a GPU)"
    options.add_argument("--cuda", choices=("auto", "yes", "no"), default="auto", help=help_cuda)
    help_torch = "use the torch of the running Python (auto: where its version fits)"
    options.add_argument("--python-torch", choices=("auto", "no"), default="auto", help=help_torch)
    arguments = options.parse_args()

    TARGET.mkdir(exist_ok=True)
    # Two builds at once must not unpack over each other. The lock goes with the process.
    with open(TARGET / "libtorch.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cuda = has_gpu() if arguments.cuda == "auto" else arguments.cuda == "yes"
        if is_ready(cuda):
            return
        packages = installed_packages() if arguments.python_torch == "auto" else None
        build(packages, cuda)
        print(f"libtorch: {pinned_version()} is ready in {LIBTORCH}" + (f", from {packages}" if packages else ""))


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"libtorch: {error}")
    except KeyboardInterrupt:
        sys.exit("libtorch: interrupted; call again")
