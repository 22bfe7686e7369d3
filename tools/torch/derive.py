#!/usr/bin/env python3
"""Makes the package of the workloads for another PyTorch: the same sources, with the crate `tch` that binds it.

    target/torch-VERSION/Cargo.toml          what the workloads need of the project's own manifest, and that tch
    target/torch-VERSION/Cargo.lock          the project's own, which cargo completes
    target/torch-VERSION/.cargo/config.toml  where libtorch lies, and which version it has to be

Crates that bind libtorch exclude each other in one lock file, so each version has a package of its own.

Usage: derive.py VERSION, or derive.py --default, which prints the version of the running Python's own torch where a crate binds
it, else the pinned one.
"""

import importlib.metadata
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# The crate that binds each libtorch; of 2.8 and 2.12 none was published.
BINDINGS = {"2.7": "0.20.0", "2.9": "0.22.0", "2.10": "0.23.0", "2.11": "0.24.0", "2.13": "0.26.0"}
# What the workloads use besides the dependencies that the feature `torch` turns on.
SHARED = ("anyhow", "clap", "nix", "serde", "serde_json")


class Failure(Exception):
    """What went wrong and what to do about it, in one line."""


def series(version):
    """`2.13` of `2.13.0` or `2.13.0+cu130`."""
    found = re.match(r"(\d+\.\d+)\.\d+(\+\w+)?$", version)
    if not found:
        raise Failure(f"{version!r} is no version of PyTorch; give all three numbers, such as 2.13.0")
    if found.group(1) not in BINDINGS:
        known = ", ".join(BINDINGS)
        raise Failure(
            f"no crate binds PyTorch {version}; there are some for {known}. Record the loops in Python instead:"
            " shice record --env NAME --workload small-cnn-python -- python3 examples/small_cnn.py"
        )
    return found.group(1)


def section(manifest, name):
    """The lines of a section of the manifest."""
    return re.search(rf"^\[{re.escape(name)}\]\n(.*?)(?=^\[|\Z)", manifest, re.MULTILINE | re.DOTALL).group(1)


def dependencies(manifest, tch):
    """The lines of what the workloads need, with another tch."""
    turned_on = re.search(r"^torch = \[(.*?)\]", section(manifest, "features"), re.MULTILINE | re.DOTALL).group(1)
    wanted = {*SHARED, *re.findall(r'"dep:([\w-]+)"', turned_on)}
    kept = []
    for line in section(manifest, "dependencies").splitlines():
        name = line.split("=", 1)[0].strip()
        if name in wanted:
            line = re.sub(r",\s*optional = true", "", line)
            kept.append(re.sub(r'version = "[^"]*"', f'version = "={tch}"', line) if name == "tch" else line)
    return "\n".join(kept)


def derived(manifest, tch):
    """The manifest of the workloads alone."""
    package = [line for line in section(manifest, "package").splitlines()
               if line.split(" ")[0] in ("version", "edition", "rust-version", "license")]
    return "\n".join([
        "# Made by tools/torch/derive.py.",
        "[package]", 'name = "shice-workloads"', *package, 'build = "../../build.rs"', "publish = false",
        "", "[workspace]",
        "", "[[bin]]", 'name = "shice-workloads"', 'path = "../../src/workloads/main.rs"',
        "", "[features]", 'default = ["torch"]', "torch = []",
        # Without its feature `torch`, which would ask for the pinned tch.
        "", "[dependencies]", 'shice = { path = "../.." }', dependencies(manifest, tch),
        "", "[profile.release]", section(manifest, "profile.release"),
    ])


def default():
    """The version of the running Python's own torch where a crate binds it, else the pinned one."""
    pinned = re.search(r"^torch==(\S+)", (ROOT / "tools/libtorch/base.txt").read_text(), re.MULTILINE).group(1)
    try:
        own = importlib.metadata.version("torch").split("+")[0]
        series(own)
        return own
    except (importlib.metadata.PackageNotFoundError, Failure):
        return pinned


def main():
    if len(sys.argv) != 2:
        raise Failure("usage: derive.py VERSION, such as 2.13.0")
    if sys.argv[1] == "--default":
        print(default())
        return
    version = sys.argv[1]
    found = series(version)
    folder = ROOT / f"target/torch-{version}"
    (folder / ".cargo").mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(derived((ROOT / "Cargo.toml").read_text(), BINDINGS[found]))
    shutil.copyfile(ROOT / "Cargo.lock", folder / "Cargo.lock")
    # torch-sys would refuse another patch level than the one that it was made with.
    (folder / ".cargo/config.toml").write_text(
        "[env]\n"
        'LIBTORCH = { value = "libtorch", relative = true, force = true }\n'
        'LIBTORCH_BYPASS_VERSION_CHECK = "1"\n'
        f'SHICE_TORCH = "{found}."\n'
    )


if __name__ == "__main__":
    try:
        main()
    except (Failure, OSError) as error:
        sys.exit(f"torch: {error}")
