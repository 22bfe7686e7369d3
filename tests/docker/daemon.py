"""Stands in for a container daemon: starts commands outside the recorder's tree, each in a control group of its own.

Usage: daemon.py SOCKET real|folder ROOT. Prints `ready` or, where no real group may be made, `none`. Ends with its standard
input. In `folder` mode ROOT looks like /sys/fs/cgroup, and its files are kept up to date from /proc.
"""

import json
import os
import signal
import socket
import sys
import threading
import time

SOCKET, MODE, ROOT = sys.argv[1:4]
CONTAINERS = {}
LOCK = threading.Lock()


def real_parents():
    """Folders of this process's own groups in the hierarchies that only account."""
    groups = [line.rstrip("\n").split(":", 2) for line in open("/proc/self/cgroup")]
    found = []
    for line in open("/proc/self/mountinfo"):
        before, after = line.split(" - ")
        point, (kind, _, options) = before.split()[4], after.split()[:3]
        options = options.split(",")
        if kind == "cgroup2":
            path = next((group[2] for group in groups if group[0] == "0"), "/")
            controllers = read(point + path + "/cgroup.subtree_control").split()
            if "cpu" in controllers or "io" in controllers:
                continue
        elif kind == "cgroup" and "cpu" not in options and set(options) & {"cpuacct", "memory", "pids"}:
            path = next((group[2] for group in groups if set(group[1].split(",")) & set(options)), "/")
        else:
            continue
        found.append(point + path.rstrip("/"))
    return [parent for parent in found if can_make(parent)]


def can_make(parent):
    probe = f"{parent}/docker-stand-in-{os.getpid()}"
    try:
        os.mkdir(probe)
        usable = os.access(probe + "/cgroup.procs", os.W_OK)
        os.rmdir(probe)
        return usable
    except OSError:
        return False


def read(path):
    try:
        return open(path).read()
    except OSError:
        return ""


def write(path, text):
    """Of always the same length, in place and at once: a reader keeps such a file open, as it does the kernel's."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.pwrite(file, text.encode(), 0)
    os.close(file)


def replace(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def tree(pid):
    """The process and its descendants, as far as they are not orphans."""
    pids = [pid] if os.path.exists(f"/proc/{pid}") else []
    for child in read(f"/proc/{pid}/task/{pid}/children").split():
        pids += tree(int(child))
    return pids


class Container:
    def __init__(self, name, image, command, folder, options):
        self.id = os.urandom(32).hex()
        self.name, self.image, self.options = name, image, options
        self.parents = PARENTS if MODE == "real" else [ROOT + "/system.slice"]
        self.dirs = [f"{parent}/docker-{self.id}.scope" for parent in self.parents]
        for directory in self.dirs:
            os.makedirs(directory)
        self.cpu, self.peak, self.oom, self.code = {}, 0, 0, None
        self.stopped, self.ended = threading.Event(), threading.Event()
        self.pid = self.start(command, folder)
        self.update()
        threading.Thread(target=self.wait, daemon=True).start()
        if MODE == "folder":
            threading.Thread(target=self.keep, daemon=True).start()

    def start(self, command, folder):
        ready, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(go)
                os.read(ready, 1)
                os.chdir(folder)
                os.execvp(command[0], command)
            finally:
                os._exit(127)
        self.enter(pid)
        os.close(ready)
        os.close(go)
        return pid

    def enter(self, pid):
        if MODE == "real":
            for directory in self.dirs:
                open(directory + "/cgroup.procs", "w").write(str(pid))

    def keep(self):
        while not self.stopped.wait(0.02):
            self.update()

    def update(self):
        if MODE == "real":
            return
        with LOCK:
            if self.stopped.is_set():
                return
            pids, rss = tree(self.pid), 0
            for pid in pids:
                try:
                    self.cpu[pid] = time.clock_gettime_ns(~pid << 3 | 2)
                except OSError:
                    pass
                for line in read(f"/proc/{pid}/status").splitlines():
                    rss += int(line.split()[1]) * 1024 if line.startswith("VmRSS") else 0
            self.peak = max(self.peak, rss)
            used, directory = sum(self.cpu.values()) // 1000, self.dirs[0]
            write(directory + "/cpu.stat", f"usage_usec {used:020}\nuser_usec {used:020}\nsystem_usec 0\n")
            write(directory + "/memory.current", f"{rss:020}\n")
            write(directory + "/memory.peak", f"{self.peak:020}\n")
            write(directory + "/memory.stat", "inactive_file 0\n")
            write(directory + "/memory.events", f"oom 0\noom_kill {self.oom}\n")
            write(directory + "/memory.max", "1073741824\n")
            write(directory + "/cpu.max", "50000 100000\n")
            replace(directory + "/cgroup.procs", "".join(f"{pid}\n" for pid in pids))

    def wait(self):
        # The processor's time of a process that has ended can be read until it is waited for.
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        self.update()
        try:
            # With its first process all others end, as in a pid namespace.
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        # A shim takes a moment, too.
        time.sleep(0.05)
        _, status = os.waitpid(self.pid, 0)
        self.stopped.set()
        with LOCK:
            self.remove()
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code
        self.ended.set()

    def remove(self):
        for directory in self.dirs:
            if MODE == "folder":
                for name in os.listdir(directory):
                    os.remove(f"{directory}/{name}")
            for _ in range(100):
                try:
                    os.rmdir(directory)
                    break
                except OSError:
                    # Whatever is left in it ends with its first process, as in a pid namespace.
                    for pid in read(directory + "/cgroup.procs").split():
                        os.kill(int(pid), signal.SIGKILL)
                    time.sleep(0.02)

    def end_for_lack_of_memory(self):
        self.oom = 1
        self.update()
        os.kill(self.pid, signal.SIGKILL)


def find(name):
    known = [one for one in list(CONTAINERS.values()) if one.name == name or one.id.startswith(name)]
    return next((one for one in reversed(known)), None)


def answer(request):
    verb = request["verb"]
    if verb == "run":
        one = Container(request["name"], request["image"], request["command"], request["folder"], request)
        CONTAINERS[one.id] = one
        if request.get("oom"):
            threading.Timer(0.5, one.end_for_lack_of_memory).start()
        return {"id": one.id, "pid": one.pid}
    one = find(request["name"])
    if one and verb == "wait":
        one.ended.wait(0.2)
        return {"code": one.code}
    if one is None or one.ended.is_set():
        return {"gone": True}
    if verb == "signal":
        os.kill(one.pid, request["signal"])
    if verb == "exec":
        pid = os.fork()
        if pid == 0:
            one.enter(os.getpid())
            os.execvp(request["command"][0], request["command"])
        return {"code": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}
    return {"id": one.id, "image": one.image}


def serve(connection):
    with connection, connection.makefile("rw") as file:
        for line in file:
            try:
                reply = answer(json.loads(line))
            except ProcessLookupError:
                reply = {"gone": True}
            try:
                file.write(json.dumps(reply) + "\n")
                file.flush()
            except BrokenPipeError:
                return


PARENTS = real_parents() if MODE == "real" else []
if MODE == "real" and not PARENTS:
    print("none", flush=True)
    sys.exit()
server = socket.socket(socket.AF_UNIX)
server.bind(SOCKET)
server.listen()


def accept():
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
for one in [one for one in CONTAINERS.values() if not one.ended.is_set()]:
    try:
        os.kill(one.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    one.ended.wait(5)
    time.sleep(0.1)
