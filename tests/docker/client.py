#!/usr/bin/env python3
"""Stands in for `docker`: asks the stand-in daemon, and uses the processor and memory itself, which must not count."""

import json
import os
import signal
import socket
import sys
import time

verb, words = sys.argv[1], sys.argv[2:]
if verb == "run":
    LOAD = bytearray(b"x") * (int(os.environ.get("STAND_IN_CLIENT_MIB", "0")) << 20)
    while time.process_time() < float(os.environ.get("STAND_IN_CLIENT_SECONDS", "0")):
        pass

connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["STAND_IN_SOCKET"])
daemon = connection.makefile("rw")


def ask(**request):
    daemon.write(json.dumps(request) + "\n")
    daemon.flush()
    return json.loads(daemon.readline())


def run(words):
    options = {}
    while words[0].startswith("--"):
        option = words.pop(0)
        if option in ("--cidfile", "--name", "--env"):
            options[option] = words.pop(0)
    image, command = words[0], words[1:]
    cidfile = options.get("--cidfile")
    if cidfile and os.path.exists(cidfile):
        sys.exit(125)
    if os.environ.get("STAND_IN_NO_ID"):
        cidfile = None
    told = ask(verb="run", name=options.get("--name", "unnamed"), image=image, command=command, folder=os.getcwd(),
               oom="STAND_IN_OOM" in os.environ)
    forward = lambda number, _: os.write(wake, bytes([number]))
    asleep, wake = os.pipe()
    os.set_blocking(asleep, False)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, forward)
    if cidfile:
        with open(cidfile, "w") as file:
            file.write(told["id"])
    while True:
        reply = ask(verb="wait", name=told["id"])
        if reply["code"] is not None:
            sys.exit(reply["code"])
        try:
            for number in os.read(asleep, 16):
                ask(verb="signal", name=told["id"], signal=number)
        except BlockingIOError:
            pass


def inspect(words):
    reply = ask(verb="inspect", name=words[-1])
    if "id" not in reply:
        sys.exit(1)
    if "{{.Image}}" in words:
        print(image_id(reply["image"]))
    else:
        print(reply["image"] if "{{.Config.Image}}" in words else reply["id"])


def image_id(image):
    return image if image.startswith("sha256:") else "sha256:id-" + image.replace(":", "-")


if verb == "run":
    run(words)
elif verb == "inspect":
    inspect(words)
elif verb == "image":
    told = image_id(words[-1])
    print(json.dumps({"Id": told, "RepoDigests": ["img@" + told.replace("id-", "digest-")], "Size": 12345}))
elif verb in ("stop", "kill"):
    reply = ask(verb="signal", name=words[-1], signal=signal.SIGTERM if verb == "stop" else signal.SIGKILL)
    print(words[-1])
elif verb == "exec":
    sys.exit(ask(verb="exec", name=words[0], command=words[1:])["code"])
else:
    sys.exit(1)
