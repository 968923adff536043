"""The walls around a bench: what is mounted, under which uid it runs, what it may use up, how all of it is ended.

A sandbox is bubblewrap with an allow-list of mounts, no network, namespaces of its own, a filter on system calls and
no capabilities. As root its processes get a real uid that no other sandbox of this machine has; as an ordinary user
they get a user namespace. Linux only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

import autograder
from autograder import lab

SCRATCH_BYTES = 256 << 20  # of /tmp, and the longest file
SHARED_BYTES = 64 << 20  # of /dev/shm
PROCESSES = 256  # threads included
FILE_BYTES = 1024  # of the kernel's memory for a file, an empty one too
SOCKET_BYTES = 212_992  # of the kernel's memory that a local socket fills by default
LOOK_SECONDS = 0.1
TRY_SECONDS = 60
FIRST_UIDS = (2_000_000_000, 900_000, 61_000)  # where nobody has a uid, the first that can be had here
SLOTS = 512
PREFIX_PARTS = ("bin", "include", "lib", "lib64", "libexec", "pyvenv.cfg")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/sys/devices/system/cpu",
)
INHERITED = ("LANG", "TZ", "COURSE_MODEL", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CXX", "GOMP_SPINCOUNT")

# bubblewrap dies with the thread that started it, so that thread must last as long as this process.
_starter = ThreadPoolExecutor(1, thread_name_prefix="sandbox-starter")


def start(program: list[str], fds: list[int], environment: dict[str, str], cores: int | None = None) -> Sandbox:
    """A program in a sandbox of its own that ends with this process. It keeps the open files `fds`.

    cores: how many it may use, none of which another sandbox of this machine with as few cores uses; None for all.
    """
    slot = Slot()
    try:
        return Sandbox(slot, _starter.submit(_spawn, slot, program, fds, environment, cores).result())
    except BaseException:
        slot.free()
        raise


class Slot:
    """One place for a sandbox: a number that no other process of this machine holds, and (as root) its own uid.

    It is held by the name of a socket, so it is free again however this process ends.
    """

    def __init__(self) -> None:
        self._held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        in_use = {process.info["uids"].real for process in psutil.process_iter(["uids"]) if process.info["uids"]}
        for self.number in range(SLOTS):
            self.uid = _first_uid() + self.number if os.geteuid() == 0 else None
            if self.uid not in in_use:
                with contextlib.suppress(OSError):
                    self._held.bind(f"\0making-generation-faster/sandbox/{self.number}")
                    return
        self._held.close()
        raise OSError(f"all {SLOTS} places for sandboxes are taken")

    def free(self) -> None:
        """Let others have it."""
        self._held.close()


class Sandbox:
    """A running sandbox: bubblewrap's own process, below it the namespace's process 1, and what runs inside."""

    def __init__(self, slot: Slot, process: subprocess.Popen) -> None:
        self._slot = slot
        self._process = process
        self._init: psutil.Process | None = None
        self._cheap_enough = 0  # bytes below which no exact count is made
        self._ended = threading.Event()
        self.uid = slot.uid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def init(self) -> psutil.Process | None:
        """The namespace's process 1; None before it is there and after it has gone."""
        if self._init is None:
            with contextlib.suppress(psutil.Error):
                self._init = next(iter(psutil.Process(self._process.pid).children()), None)
        return self._init

    def everything(self) -> list[psutil.Process]:
        """Every process inside but process 1, which is bubblewrap's."""
        with contextlib.suppress(psutil.Error):
            return self.init().children(recursive=True) if self.init() else []
        return []

    def process_of(self, inner: int) -> psutil.Process | None:
        """The process whose number is `inner` for those inside."""
        return next((process for process in self.everything() if _innermost_pid(process.pid) == inner), None)

    def memory_bytes(self) -> int:
        """Main memory in use by all processes and folders in there, shared pages counted once."""
        statuses = list(self._inside("status"))
        in_processes = sum(map(held_memory, statuses))
        if in_processes > self._cheap_enough:  # each shared page divided among those who share it; slow
            in_processes = sum(_bytes(rollup, "Pss_Anon", "Pss_Shmem") for rollup in self._inside("smaps_rollup"))
            in_processes += sum(_bytes(status, "VmPTE") for status in statuses)
        return in_processes + self.folder_bytes()

    def folder_bytes(self) -> int:
        """Main memory in use by its folders, which lie there, and by its sockets."""
        return sum(self._used(folder) for folder in ("tmp", "dev/shm")) + self._in_sockets()

    def watch(self, limit: Callable[[], int], overrun: Callable[[], None]) -> None:
        """Call `overrun` whenever more than limit() bytes are in use, until the sandbox ends."""

        def look() -> None:
            while not self._ended.wait(LOOK_SECONDS):
                self._cheap_enough = limit()
                if self.memory_bytes() > limit():
                    overrun()

        threading.Thread(target=look, daemon=True, name="sandbox-watch").start()

    def kill(self) -> None:
        """End process 1, and with it everything in there; wait until it is gone."""
        self._ended.set()
        with contextlib.suppress(psutil.Error):
            outer = psutil.Process(self._process.pid)
            outer.suspend()  # so that it starts no process 1 after this has looked for one
            if self.init():
                self.init().kill()
            outer.kill()
        self._process.wait()
        with contextlib.suppress(psutil.Error):
            if self._init is not None:
                self._init.wait(timeout=10)
        self._slot.free()

    def files(self) -> Path:
        """Where this process finds the sandbox's own file system. Raises OSError when the sandbox is gone."""
        if self.init() is None:
            raise ProcessLookupError("the sandbox is gone")
        return Path("/proc", str(self.init().pid), "root")

    def _inside(self, file: str) -> Iterator[str]:
        """That file of /proc for every process inside."""
        try:
            processes = [path for path in (self.files() / "proc").iterdir() if path.name.isdigit()]
        except OSError:
            return
        for process in processes:
            with contextlib.suppress(OSError):
                yield (process / file).read_text("utf-8")

    def _used(self, folder: str) -> int:
        try:
            usage = os.statvfs(self.files() / folder)
        except OSError:
            return 0
        files = usage.f_files - usage.f_ffree
        return (usage.f_blocks - usage.f_bfree) * usage.f_frsize + files * FILE_BYTES

    def _in_sockets(self) -> int:
        """What its local sockets can hold at most."""
        try:
            return (self.files().parent / "net/unix").read_bytes().count(b"\n") * SOCKET_BYTES
        except OSError:
            return 0


def environment(extra: dict[str, str]) -> dict[str, str]:
    """What a program in a sandbox finds in its environment: nothing of the caller's but a few harmless names."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    own = {"HOME": "/tmp", "TMPDIR": "/tmp", "USER": "learner", "LOGNAME": "learner"}
    path = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "AUTOGRADER_CACHE": str(lab.cache_dir())}
    return {"LANG": "C.UTF-8"} | kept | own | path | extra


def why_not() -> str | None:
    """Why no sandbox can be had here, in a few words; None when one was made and held tight."""
    try:
        _try_out()
    except OSError as error:
        return str(error)
    return None


def separate_user() -> Slot | None:
    """A place whose user can run this interpreter and is not the caller; None where none is to be had.

    It is what is left where there is no sandbox but the caller is root, as in most containers.
    """
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return None
    slot = Slot()
    look = [*dropping(slot), sys.executable, "-I", "-c", "from autograder import lab"]
    done = subprocess.run(look, stdin=subprocess.DEVNULL, capture_output=True, env=environment({}), check=False)
    if done.returncode == 0:
        return slot
    slot.free()
    return None


@functools.cache
def _try_out() -> None:
    """Make a sandbox and look around in it, until it has worked once. Raises OSError, which says why not."""
    if sys.platform != "linux":
        raise OSError("sandboxes need Linux")
    if platform.machine() not in ARCHITECTURES:
        raise OSError(f"the filter on system calls is not written for {platform.machine()}")
    if shutil.which("bwrap") is None:
        raise OSError("bubblewrap is not installed")
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        raise OSError("setpriv (util-linux) is not installed")
    look = "import os; print(os.getuid(), os.path.exists('/etc/shadow'))"
    slot = Slot()
    try:
        process = _spawn(slot, [sys.executable, "-I", "-c", look], [], environment({}), output=subprocess.PIPE)
        try:
            said, complaint = process.communicate(timeout=TRY_SECONDS)
        finally:
            Sandbox(slot, process).kill()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OSError(f"bubblewrap does not work here ({error})") from None
    finally:
        slot.free()
    if process.returncode:
        raise OSError(f"bubblewrap does not work here ({complaint.decode(errors='replace').strip()[:200]})")
    if said.decode().split() != [str(slot.uid or os.getuid()), "False"]:
        raise OSError("bubblewrap runs here but does not hold tight")


def _spawn(
    slot: Slot, program: list[str], fds: list[int], environment: dict, cores: int | None = None, *, output=None
) -> subprocess.Popen:
    """bubblewrap around the program, its arguments and its filter read from open files."""
    output = output or subprocess.DEVNULL
    with (
        _on_cores(slot.number, cores),
        _open_file(_filter()) as calls,
        _open_file("\0".join(_walls(slot, calls)).encode()) as walls,
    ):
        return subprocess.Popen(
            ["bwrap", "--args", str(walls), "--", *dropping(slot), *program],
            pass_fds=[*fds, calls, walls],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


@contextlib.contextmanager
def _on_cores(number: int, cores: int | None) -> Iterator[None]:
    """Let what this thread starts run on its own share of the cores; the filter keeps it there."""
    all_cores = sorted(os.sched_getaffinity(0))
    if cores is None or cores >= len(all_cores):
        yield
        return
    os.sched_setaffinity(0, {all_cores[(number * cores + i) % len(all_cores)] for i in range(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


@contextlib.contextmanager
def _open_file(data: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def dropping(slot: Slot) -> list[str]:
    """As root: the words before a program by which it becomes the slot's user, without a way back."""
    if slot.uid is None:
        return []
    ids = ["--reuid", str(slot.uid), "--regid", str(slot.uid), "--clear-groups"]
    return ["setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]


def _walls(slot: Slot, calls: int) -> list[str]:
    """bubblewrap's arguments."""
    walls = ["--die-with-parent", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    if slot.uid is None:
        walls += ["--unshare-user", "--disable-userns"]
    else:
        walls += ["--cap-drop", "ALL", *_options("--cap-add", ["CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"])]
    walls += ["--proc", "/proc", "--dev", "/dev"]
    walls += [word for device in _gpu_devices() for word in ("--dev-bind", device, device)]
    for folder, size in (("/dev/shm", SHARED_BYTES), ("/tmp", SCRATCH_BYTES)):
        walls += ["--perms", "1777", "--size", str(size), "--tmpfs", folder]
    walls += [*_mounts(), "--remount-ro", "/dev", "--remount-ro", "/"]  # after /tmp: the course may lie below it
    return [*walls, "--seccomp", str(calls), "--chdir", "/tmp"]


def _options(name: str, values: list[str]) -> Iterator[str]:
    for value in values:
        yield from (name, value)


def _mounts() -> list[str]:
    """The allow-list: interpreter, packages, compiler, model, and of this package only what notebooks import."""
    words: list[str] = []
    shown: set[Path] = set()
    made: set[Path] = {Path("/"), Path("/tmp")}

    def parents(path: Path) -> None:
        for folder in reversed(path.parents):
            if folder not in made and not shown.intersection((folder, *folder.parents)):
                words.extend(["--perms", "0755", "--dir", str(folder)])
                made.add(folder)

    def show(path: Path) -> None:
        if path in made or any(parent in shown for parent in path.parents):
            return
        parents(path)
        link = path.is_symlink() and path.parent == Path("/")  # /lib and the like, which are in /usr nowadays
        words.extend(["--symlink", os.readlink(path), str(path)] if link else ["--ro-bind", str(path), str(path)])
        made.add(path)
        shown.add(path)

    for path in _shown_paths():
        if path.exists():
            show(path)
    package = Path(autograder.__file__).parent
    parents(package)
    words += ["--perms", "0755", "--tmpfs", str(package)]
    for part in ("__init__.py", "lab"):
        words += ["--ro-bind", str(package / part), str(package / part)]
    return [*words, "--remount-ro", str(package)]


def _shown_paths() -> Iterator[Path]:
    for prefix in dict.fromkeys(("/usr", sys.base_prefix, sys.prefix)):
        yield from (Path(prefix, part) for part in PREFIX_PARTS)
    yield from map(Path, ("/bin", "/lib", "/lib64", "/lib32", *SYSTEM_FILES))
    yield Path(sysconfig.get_path("stdlib"))
    yield from (Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages")))
    yield lab.default_model.folder()
    yield lab.setup.compile_cache()
    yield lab.cache_dir() / "machine.json"
    if (named := Path(os.environ.get("COURSE_MODEL", "") or "-").expanduser()).is_dir():
        yield named.absolute()


def _gpu_devices() -> list[str]:
    return [str(path) for path in (*Path("/dev").glob("nvidia*"), Path("/dev/kfd"), Path("/dev/dri")) if path.exists()]


def _first_uid() -> int:
    """The first of SLOTS uids that exist in this user namespace and belong to nobody."""
    lines = [
        [int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text("utf-8").splitlines()
    ]
    for first in FIRST_UIDS:
        if any(inside <= first and first + SLOTS <= inside + length for inside, _, length in lines):
            return first
    raise OSError("this user namespace has no uids to spare for sandboxes")


def _innermost_pid(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def held_memory(status: str) -> int:
    """Bytes a process has in use, from its status file; pages it shares with others count in full, files do not."""
    return _bytes(status, "RssAnon", "RssShmem", "VmPTE")


def _bytes(lines: str, *names: str) -> int:
    return sum(int(line.split()[1]) << 10 for line in lines.splitlines() if line.startswith(names))


# System calls by the kernel's number on (x86-64, arm64). Refused: what makes namespaces and mounts (a fresh one would
# have no size), memory that no limit counts, channels that outlive a process, other processes' memory and open files,
# and cores that were given to others.
ABSENT = {"clone3": (435, 435), "memfd_create": (319, 279), "memfd_secret": (447, 447)}  # callers have another way
REFUSED = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "sched_setaffinity": (203, 122),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
}
SOCKET = (41, 198)
FAMILIES = (1, 16)  # UNIX, NETLINK. With nothing to reach, IPv4 and IPv6 would only hold memory that nothing counts
CLONE = (56, 220)
NEW_NAMESPACES = 0x7E020000  # the flags of clone that ask for one
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, the kernel's name for it
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97


def _filter() -> bytes:
    """The filter as the kernel reads it: one instruction of 8 bytes after the other."""
    column, name = ARCHITECTURES[platform.machine()]
    program = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, name), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    if name == 0xC000003E:  # the same calls under other numbers
        program += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, FAIL | EPERM)]
    for calls, number in ((ABSENT, ENOSYS), (REFUSED, EPERM)):
        for call in calls.values():
            program += [(EQUAL, 0, 1, call[column]), (RETURN, 0, 0, FAIL | number)]
    program += [(EQUAL, 0, 2 + 2 * len(FAMILIES), SOCKET[column]), (LOAD, 0, 0, 16)]
    for family in FAMILIES:
        program += [(EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]
    program += [(RETURN, 0, 0, FAIL | EAFNOSUPPORT)]
    program += [(EQUAL, 0, 3, CLONE[column]), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, NEW_NAMESPACES)]
    program += [(RETURN, 0, 0, FAIL | EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
