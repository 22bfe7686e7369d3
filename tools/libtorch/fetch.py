#!/usr/bin/env python3
"""Puts libtorch into target/libtorch, for the programs that are built with the feature `torch`; another version than the
pinned one (--torch) into target/torch-VERSION/libtorch.

    packages/       torch and its CUDA libraries, laid out as in Python's site-packages: their relative search paths hold
    lib/, include/  what the linker and the C++ compiler see: the CPU half only, so that one program runs everywhere
    build-version   read by the build of torch-sys
    stamp.json      written last: the folder is whole, and this is what it was made from

Where the running Python already holds a fitting torch, `packages` is a link to it and nothing is downloaded. Otherwise
wheels are fetched with pip, each checked against the hash pinned beside this script; of another version, those that
torch's own metadata asks for. An interrupted call leaves nothing
that a later one would take for whole; wheels that were finished come from pip's cache then.
"""

import argparse
import dataclasses
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
BASE, CUDA = HERE / "base.txt", HERE / "cuda.txt"
ARCHITECTURES = ("x86_64", "aarch64")
# The wheels are read, not imported: their Python version needs not be the one that runs this script.
PYTHON_TAG = ("3.12", "cp312")
# The CUDA libraries that libtorch_cpu.so is linked to: of their packages' names the part after `nvidia-`.
FOR_CPU = ("cuda-runtime", "cuda-cupti")
# What the program is linked to.
LINKED = ("libtorch_cpu.so", "libc10.so")
# Libraries that only Python or a GPU needs.
NOT_FOR_CPU = re.compile(r"cuda|python|nvshmem|nvrtc|shm|global_deps|libtorch\.so")
NOT_FOR_RUST = re.compile(r"python|shm\.|global_deps")
# Unpacked libraries plus wheels, with some air.
NEEDED_GB = {False: 2, True: 10}


class Failure(Exception):
    """What went wrong and what to do about it, in one line."""


@dataclasses.dataclass
class Wanted:
    """What is to be made, and where."""

    version: str
    cuda: bool

    @property
    def is_pinned(self):
        return self.version == pinned_version()

    @property
    def folder(self):
        return TARGET / "libtorch" if self.is_pinned else TARGET / f"torch-{self.version}/libtorch"

    @property
    def staging(self):
        return self.folder.with_name("libtorch.new")

    @property
    def wheels(self):
        return self.staging / "wheels"

    @property
    def recipe(self):
        """Changes when this script, its pins or the version do."""
        parts = [path.read_bytes() for path in (Path(__file__), BASE, CUDA)]
        return hashlib.sha256(b"".join([*parts, self.version.encode()])).hexdigest()


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


def installed_packages(version):
    """The site-packages folder of the running Python, if it holds that version of torch; torch-sys refuses any other."""
    try:
        torch = importlib.metadata.distribution("torch")
    except importlib.metadata.PackageNotFoundError:
        return None
    folder = Path(torch.locate_file("")).resolve()
    fits = torch.version.split("+")[0] == version and (folder / "torch/lib/libtorch_cpu.so").exists()
    return folder if fits else None


def is_ready(wanted):
    """Whether an earlier call made what is wanted now, and it is still there."""
    try:
        stamp = json.loads((wanted.folder / "stamp.json").read_text())
    except (OSError, ValueError):
        return False
    packages = wanted.folder / "packages"
    linked = packages.is_symlink()
    return (
        stamp.get("recipe") == wanted.recipe
        and (linked or stamp.get("cuda") or not wanted.cuda)
        and (not linked or installed_packages(wanted.version) == packages.resolve())
        and all((wanted.folder / "lib" / name).exists() for name in LINKED)
    )


def download_command(wheels, architecture):
    """The call of pip that fetches wheels for `architecture` without their dependencies, less what is to be fetched."""
    # pip takes tags literally: a wheel tagged manylinux_2_25 is not found by one that asks for 2_28 and 2_17 only.
    tags = [f"manylinux_2_{minor}" for minor in range(28, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]
    version, abi = PYTHON_TAG
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    command += ["--python-version", version, "--implementation", "cp", "--abi", abi]
    return command + [f"--platform={tag}_{architecture}" for tag in tags]


def pinned(wanted):
    """Options of pip for the wheels that are pinned by their hashes."""
    pins = [BASE, CUDA] if wanted.cuda else [BASE]
    return ["--require-hashes", *(option for path in pins for option in ("--requirement", str(path)))]


def requirements(wheel, extras=()):
    """What a wheel asks for on Linux: (name, the rest such as ==1.2), with what it asks for by these extras."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    for line in lines:
        found = re.match(r"Requires-Dist: ([\w.-]+)(\[[^\]]*\])?\s*\(?([=<>~!\d.*,]*)\)?\s*(;.*)?$", line)
        if found:
            name, its_extras, version, condition = found.groups(default="")
            extra = re.search(r"extra == ['\"]([\w-]+)['\"]", condition)
            elsewhere = "platform" in condition and "linux" not in condition.lower()
            if not (elsewhere and "win" in condition.lower()) and (not extra or extra.group(1) in extras):
                yield name, its_extras.strip("[]").split(","), version


def needed_by_torch(command, wanted):
    """The CUDA packages of a torch that is already among the wheels: those that the CPU half needs, or all."""
    packages = {}
    (torch,) = wanted.wheels.glob("torch-*.whl")
    for name, extras, version in requirements(torch):
        if name == "cuda-toolkit":
            # A package without content, whose extras name the libraries.
            fetch(command, [name + version])
            (toolkit,) = wanted.wheels.glob("cuda_toolkit-*.whl")
            extras = [extra for group in extras for extra in group.split(",")]
            packages.update({name: version for name, _, version in requirements(toolkit, extras)})
        packages[name] = version
    is_library = re.compile("nvidia-" if wanted.cuda else f"nvidia-({'|'.join(FOR_CPU)})(-|$)")
    return [name + version for name, version in packages.items() if is_library.match(name)]


def fetch(command, packages):
    """Calls pip."""
    if packages and subprocess.run(command + packages, check=False).returncode != 0:
        raise Failure("pip could not fetch the wheels (see above); call again when that is mended")


def download(wanted):
    """Fetches the wheels, after checking what would make that fail late."""
    architecture = platform.machine()
    if platform.system() != "Linux" or architecture not in ARCHITECTURES:
        found = f"{platform.system()} on {architecture}"
        raise Failure(f"no pinned libtorch for {found}; there is one for Linux on {' and '.join(ARCHITECTURES)}")
    free, needed = shutil.disk_usage(TARGET).free / 1e9, NEEDED_GB[wanted.cuda]
    if free < needed:
        raise Failure(f"{needed} GB are needed below {TARGET}, where {free:.1f} GB are free; make room there")
    print(f"libtorch: downloading {'2.5 GB, with CUDA' if wanted.cuda else '0.55 GB'}, once", flush=True)
    command = download_command(wanted.wheels, architecture)
    if wanted.is_pinned:
        fetch(command, pinned(wanted))
    else:
        fetch(command, [f"torch=={wanted.version}"])
        fetch(command, needed_by_torch(command, wanted))


def belongs(name, cuda):
    """Whether the member `name` of a wheel belongs into packages/."""
    if name.startswith("torch/include/"):
        return True
    if not re.fullmatch(r"(torch/lib|torch\.libs|nvidia/.+/lib)/[^/]+\.so[.\d]*", name):
        return False
    file = name.rsplit("/", 1)[1]
    if not name.startswith("torch/lib/"):
        return cuda or not name.startswith("nvidia/") or file.startswith(("libcudart.", "libcupti."))
    return not (NOT_FOR_RUST if cuda else NOT_FOR_CPU).search(file)


def unpack(wanted):
    """Unpacks what belongs of every wheel."""
    for wheel in sorted(wanted.wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if belongs(name, wanted.cuda)]
            archive.extractall(wanted.staging / "packages", members)


def lay_out(folder, version):
    """Makes the linker's view beside packages/."""
    os.symlink("packages/torch/include", folder / "include")
    (folder / "lib").mkdir()
    for name in LINKED:
        os.symlink(f"../packages/torch/lib/{name}", folder / "lib" / name)
    # torch-sys asks for libtorch.so, an empty library that exists to pull in its halves. This one pulls in the CPU half.
    (folder / "lib/libtorch.so").write_text("INPUT(-ltorch_cpu)\n")
    (folder / "build-version").write_text(version + "\n")


def check_loads(folder):
    """Loads libtorch in a process of its own, so that a missing library is named here and not by the first run."""
    library = folder / "packages/torch/lib/libtorch_cpu.so"
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    load = subprocess.run([sys.executable, "-c", program, str(library)], capture_output=True, text=True, check=False)
    if load.returncode != 0:
        reason = (load.stderr.strip().splitlines() or [f"exit code {load.returncode}"])[-1]
        raise Failure(f"libtorch cannot be loaded: {reason}")


def build(packages, wanted):
    """Makes the folder aside, from `packages` or from wheels, and puts it in place whole."""
    staging = wanted.staging
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    if packages:
        os.symlink(packages, staging / "packages")
    else:
        download(wanted)
        unpack(wanted)
        shutil.rmtree(wanted.wheels)
    lay_out(staging, wanted.version)
    check_loads(staging)
    (staging / "stamp.json").write_text(json.dumps({"recipe": wanted.recipe, "cuda": wanted.cuda}) + "\n")
    shutil.rmtree(wanted.folder, ignore_errors=True)
    staging.rename(wanted.folder)


def main():
    options = argparse.ArgumentParser(description="Puts libtorch into target/libtorch.")
    options.add_argument("--torch", metavar="VERSION", help="another version than the pinned one, such as 2.13.0")
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
        wanted = Wanted(arguments.torch or pinned_version(), cuda)
        if is_ready(wanted):
            return
        packages = installed_packages(wanted.version) if arguments.python_torch == "auto" else None
        build(packages, wanted)
        print(f"libtorch: {wanted.version} is ready in {wanted.folder}" + (f", from {packages}" if packages else ""))


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError, zipfile.BadZipFile) as error:
        sys.exit(f"libtorch: {error}")
    except KeyboardInterrupt:
        sys.exit("libtorch: interrupted; call again")
