"""Benches and workers seen from the judge: starting, asking, stopping, killing. Everything here has a deadline."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import os
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psutil

from autograder import lab
from autograder.exercise import LIBRARIES, Challenge, Foreign, Raised
from autograder.judge import sandbox, wire
from autograder.lab import LabError

START_SECONDS = 120.0
CONTROL_SECONDS = 10.0  # for a bench's answer once it is ready
STOP_SECONDS = 5.0
MOST_TRIES = 50  # at processes that appear faster than they are stopped or killed
MAX_CALL_BYTES = 16 << 20  # of all named calls of one challenge: the judge keeps what they carry
MAX_LINE, MAX_ITEMS = 250, 1000  # characters and entries kept of what a worker says of an exception
NO_ANSWER = "what came back was not an answer"
STANDING = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD, None)
FORK_IS_SAFE = sys.platform == "linux"
MEMORY_MARGIN = 1 << 30  # of the bench itself, and of the folders in its sandbox
LIMITS = {  # in a sandbox, per process; on processes, threads included, for the whole of it
    "NPROC": sandbox.PROCESSES,
    "FSIZE": sandbox.SCRATCH_BYTES,
    "NOFILE": 256,
    "MEMLOCK": 1 << 20,
    "MSGQUEUE": 0,
    "CORE": 0,
}

# The bench gets its program as its first message: nothing of the judge has to be importable where it runs.
BOOTSTRAP = """
import json, os, socket, struct, sys, types
fd, entry = int(sys.argv[1]), sys.argv[2]
def read(n):
    data = b""
    while len(data) < n:
        part = os.read(fd, n - len(data))
        if not part: sys.exit()
        data += part
    return data
sources = json.loads(read(struct.unpack(">Q", read(8))[0]))
for name in ("autograder.judge.wire", "autograder.judge.bench"):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(sources[name], f"<{name}>", "exec"), module.__dict__)
getattr(sys.modules["autograder.judge.bench"], entry)(fd)
"""


class Died(Exception):
    """The learner's process ended before it answered; the message says how, in words."""


class BenchError(LabError):
    """Learners' code cannot be run on this machine at all; one sentence."""


class TimedOut(Exception):
    """The learner's process used up its budget."""


@dataclass(frozen=True)
class Failure:
    """A statement that failed while the slice was loaded: the names it should have bound, and what it raised."""

    names: tuple[str, ...]
    raised: Raised


@dataclass(frozen=True)
class Loaded:
    """What loading a slice gave: statements that failed, and needed names that are not there."""

    failures: list[Failure]
    missing: list[str]


class Worker:
    """One process forked for one exercise. Not reused, not shared."""

    def __init__(self, channel: socket.socket, pid: int, bench: Bench | None = None, inner_pid: int = 0) -> None:
        self._channel = channel
        self.pid = pid
        self.inner_pid = inner_pid  # as the bench knows it: another number in a sandbox
        self._bench = bench
        self._received = 0  # bytes
        self._in_folders = bench.folder_bytes() if bench else 0  # of the sandbox, before anything ran here

    def load(
        self,
        cells: list[dict],
        keep: list,
        flags: int,
        needs: tuple[str, ...],
        deadline: float,
        *,
        another: bool = False,
    ) -> Loaded:
        """Execute a slice of the learner's statements; in `another` process, `hash` is salted anew."""
        message = {"do": "load", "cells": cells, "keep": keep, "flags": flags, "needs": list(needs)}
        reply = self._ask(message | {"another": another}, deadline)
        failures, missing = reply.get("failures"), reply.get("missing")
        if not _is_texts(missing) or not isinstance(failures, list):
            raise Died(NO_ANSWER)
        return Loaded([_failure(item) for item in failures[:MAX_ITEMS]], missing)

    def define(self, name: str, function: Callable, deadline: float) -> None:
        """Send one of an exercise's static functions as source, before any code of a learner's runs here.

        Raises BenchError when it cannot be defined: that is the course's fault.
        """
        source, called = function_source(function)
        reply = self._ask({"do": "define", "as": name, "source": source, "name": called}, deadline)
        if "failed" in reply:
            raise BenchError(f"the course's own `{called}` cannot be run: {reply['failed']}")

    def run(self, name: str, challenge: Challenge, deadline: float, *, with_learner: bool = True) -> Any:
        """The answer to one challenge: plain values, `Foreign` for what is not data, or a `Raised`.

        Named calls are served here and logged in the challenge. Raises Died or TimedOut.
        """
        message = {"do": "run", "as": name, "data": challenge.data, "with_learner": with_learner}
        before = self._received
        reply = self._ask(message | {"calls": list(challenge.calls)}, deadline)
        while "call" in reply:
            if self._received - before > MAX_CALL_BYTES:
                raise Died(f"its calls carried more than {MAX_CALL_BYTES >> 20} MB")
            reply = self._ask(_served(challenge, reply), deadline)
        if "raised" in reply:
            return _raised(reply["raised"])
        return reply.get("answer")

    def memory_bytes(self) -> int:
        """Main memory that this process and those it started hold, what they share with the bench counted in.

        In a sandbox with the files that were written there.
        """
        others = self._bench.left_behind() if self._bench else []
        files = self._bench.folder_bytes() - self._in_folders if self._bench else 0
        return sum(memory_bytes(process.pid) for process in {*tree(self.pid), *others}) + max(0, files)

    def stop_one(self) -> None:
        """Freeze this process (for the course's own workers, which start no others)."""
        freeze(lambda: [psutil.Process(self.pid)])

    def go_on_one(self) -> None:
        """Undo `stop_one`."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the worker and everything below it."""
        self._channel.close()
        kill_all(lambda: tree(self.pid))
        if self._bench is not None:
            self._bench.forget(self)

    def _ask(self, message: dict, deadline: float) -> dict:
        try:
            wire.send(self._channel, message, deadline)
            data = wire.receive_bytes(self._channel, deadline)
            self._received += len(data)
            reply = wire.decode(data, Foreign)
        except wire.Late:
            raise TimedOut("no answer within the time allowed") from None
        except wire.Closed:
            raise Died(self._how_it_ended()) from None
        except wire.WireError as error:
            raise Died(f"{NO_ANSWER} ({error})") from None
        if not isinstance(reply, dict):
            raise Died(NO_ANSWER)
        return reply

    def _how_it_ended(self) -> str:
        status = self._bench.status_of(self) if self._bench else None
        if self._bench and self._bench.overrun:
            return self._bench.overrun
        if status is None:
            return "it ended its own process"
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return {
                signal.SIGSEGV: "it crashed with a segmentation fault",
                signal.SIGKILL: "it was killed, most likely for memory",
                signal.SIGABRT: "it aborted",
                signal.SIGXCPU: "it used up its processor time",
                signal.SIGXFSZ: "it wrote a file longer than is allowed",
            }.get(number, f"it was ended by signal {number}")
        return f"it ended its own process with exit status {os.WEXITSTATUS(status)}"


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _raised(problem: Any) -> Raised:
    """An exception as the worker tells it; Died when it tells it in another form than ours."""
    told = problem if isinstance(problem, dict) else {}
    kind, message, frames = told.get("kind"), told.get("message"), told.get("frames")
    if not isinstance(kind, str) or not isinstance(message, str) or not _is_texts(frames):
        raise Died(NO_ANSWER)
    return Raised(kind[:MAX_LINE], message[: 4 * MAX_LINE], tuple(frame[:MAX_LINE] for frame in frames[-MAX_ITEMS:]))


def _failure(item: Any) -> Failure:
    if not isinstance(item, dict) or not _is_texts(item.get("names")):
        raise Died(NO_ANSWER)
    return Failure(tuple(item["names"][:MAX_ITEMS]), _raised(item))


def _served(challenge: Challenge, request: dict) -> dict:
    """Answer one named call of the worker's, and log it."""
    name, args = request["call"], request.get("args", [])
    kwargs = request.get("kwargs", {})
    function = challenge.calls.get(name) if isinstance(name, str) else None
    if function is None or not isinstance(args, list) or not isinstance(kwargs, dict):
        return {"error": f"there is no call {name!r} here"}
    try:
        value = function(*args, **kwargs)
    except Exception as error:
        challenge.log.append((name, tuple(args), Raised(type(error).__name__, str(error))))
        return {"error": f"{name}: {error}"}
    challenge.log.append((name, tuple(args), value))
    return {"value": value}


class Bare:
    """A program in a process session of its own, and nothing around it."""

    def __init__(self, program: list[str], fds: list[int], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            program,
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def everything(self) -> list[psutil.Process]:
        """The program and every process below it."""
        return tree(self._process.pid)

    def process_of(self, inner: int) -> psutil.Process | None:
        """The one of these processes that calls itself `inner`."""
        return next((process for process in self.everything() if process.pid == inner), None)

    def kill(self) -> None:
        """End all of it."""
        kill_all(self.everything)
        self._process.wait()


class Bench:
    """A parent of workers with torch imported and nothing computed.

    libraries: what is imported before a worker is forked.
    walled: in a sandbox, which needs Linux.
    user: without a sandbox, the place whose user it runs as; the caller's own by default.
    A learner's bench has one worker at a time; the course's own is `shared` by the workers of both its arms.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        libraries: tuple[str, ...] = LIBRARIES,
        shared: bool = False,
        walled: bool = False,
        user: sandbox.Slot | None = None,
    ) -> None:
        self._shared = shared
        self._user = user
        self._walled = walled
        self._scratch = os.path.join(
            "/tmp" if walled else tempfile.gettempdir(), f"autograder-bench-{secrets.token_hex(8)}"
        )
        self._greeting = {
            "libraries": list(libraries),
            "walled": walled,
            "limits": LIMITS if walled else {},
            "compile_cache": str(lab.setup.compile_cache()),
            "scratch": self._scratch,
        }
        self._threads = threads
        self._spawned: list[Bare | sandbox.Sandbox] = []
        self._own: psutil.Process | None = None  # the bench's own process
        self._memory_limit = 0
        self._broken = self._still = False
        self.overrun = ""  # why everything on this bench was ended, in words
        self._home, self._control = self._start("main") if FORK_IS_SAFE else (None, None)
        self._ready = not FORK_IS_SAFE

    def _start(self, entry: str) -> tuple[Bare | sandbox.Sandbox, socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            program = [sys.executable, "-I", "-c", BOOTSTRAP, str(theirs.fileno()), entry]
            if self._walled:
                environment = sandbox.environment(_added(self._threads))
                try:
                    home = sandbox.start(program, [theirs.fileno()], environment, self._threads)
                except OSError as error:
                    raise BenchError(f"learners' code cannot be run here: there is no sandbox ({error})") from None
            else:
                environment = bench_environment(self._threads)
                if self._user is not None:
                    environment |= {"HOME": self._scratch}
                    program = [*sandbox.dropping(self._user), *program]
                home = Bare(program, [theirs.fileno()], environment)
        _send_program(ours)
        return home, ours

    @property
    def alive(self) -> bool:
        """Whether the bench can still fork workers: it is there, and has answered whenever it was asked."""
        return not self._broken and (self._home is None or self._home.alive)

    def wait_until_ready(self) -> None:
        """Block until the imports are done. Raises BenchError when the bench could not start."""
        if self._ready:
            return
        deadline = time.monotonic() + START_SECONDS
        try:
            wire.send(self._control, self._greeting, deadline)
            ready = wire.receive(self._control, deadline)
        except wire.WireError as error:
            why = f"learners' code cannot be run here ({error}); `autograder doctor` says what is missing"
            raise BenchError(why) from None
        self._own = self._home.process_of(ready["ready"])
        if self._walled and not self._shared:
            self._home.watch(lambda: self._memory_limit + MEMORY_MARGIN, self._end_for_memory)
        self._ready = True

    def worker(self, *, memory_bytes: int = 4 << 30, cpu_seconds: float = 3600) -> Worker:
        """A fresh worker. Raises BenchError when there is none to be had: that is no learner's fault."""
        if not FORK_IS_SAFE:
            return self._spawn(memory_bytes)
        self.wait_until_ready()
        self.overrun, self._memory_limit = "", memory_bytes
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                wanted = {"memory_bytes": memory_bytes, "cpu_seconds": math.ceil(cpu_seconds)}
                pid = self._ask({"do": "fork"} | wanted, theirs.fileno())
            process = self._home.process_of(pid)
        except (OSError, wire.WireError) as error:
            ours.close()
            raise BenchError(f"learners' code cannot be run here: the bench is gone ({error})") from None
        if process is None:
            ours.close()
            raise BenchError("learners' code cannot be run here: a process was gone before it had begun")
        return Worker(ours, process.pid, self, pid)

    def _spawn(self, memory_bytes: int) -> Worker:
        home, channel = self._start("alone")
        self._spawned.append(home)
        deadline = time.monotonic() + START_SECONDS
        wire.send(channel, self._greeting | {"memory_bytes": memory_bytes, "cpu_seconds": 3600}, deadline)
        return Worker(channel, wire.receive(channel, deadline)["ready"])

    def status_of(self, worker: Worker) -> int | None:
        """The wait status of a worker that has ended, or None."""
        try:
            return self._ask({"do": "reap", "pid": worker.inner_pid})
        except (OSError, wire.WireError):
            return None

    def _ask(self, message: dict, fd: int | None = None) -> int | None:
        """The number that the bench answers to this message and to no other. Raises OSError and WireError.

        A learner's code may have stopped the bench, or spoken in its name; one that does not answer is not used again.
        """
        token, deadline = secrets.token_hex(8), time.monotonic() + CONTROL_SECONDS
        _quietly(self._own.send_signal, signal.SIGCONT) if self._own else None
        try:
            wire.send(self._control, message | {"token": token}, deadline)
            if fd is not None:
                socket.send_fds(self._control, [b"w"], [fd])
            reply = wire.receive(self._control, deadline)
            if not isinstance(reply, dict) or reply.get("token") != token:
                raise wire.WireError("an answer that belongs to no question")
            if not isinstance(reply.get("number"), int | None):
                raise wire.WireError(NO_ANSWER)
        except (OSError, wire.WireError):
            self._broken = True
            raise
        return reply["number"]

    def forget(self, worker: Worker) -> None:
        """A worker was closed: kill what it left behind, unless other workers live here too."""
        if not self._shared:
            self._signal_others(signal.SIGKILL)
            if not kill_all(self._all_but_own):
                self._home.kill()
        self.status_of(worker)

    def _signal_others(self, number: int) -> None:
        """A signal to all processes of a sandbox but its bench, at once: one that renews itself is never on a list."""
        if self._walled:
            with contextlib.suppress(OSError, wire.WireError):
                self._ask({"do": "signal", "signal": int(number)})

    def _end_for_memory(self) -> None:
        self.overrun = f"all its processes together used more than {self._memory_limit / 1e9:.1f} GB of memory"
        kill_all(self._all_but_own)

    def left_behind(self) -> list[psutil.Process]:
        """Processes of a learner's bench that may have lost the worker they came from."""
        return [] if self._shared else self._all_but_own()

    def _all_but_own(self) -> list[psutil.Process]:
        return [process for process in self._home.everything() if process != self._own]

    def folder_bytes(self) -> int:
        """Main memory that the folders of the sandbox take; 0 without one."""
        return self._home.folder_bytes() if self._walled and self._home else 0

    def stop(self) -> None:
        """Freeze the bench and everything below it, so that the other side is timed alone.

        Raises Died when something there cannot be kept still; all of it is ended then.
        """
        if self._still:
            return
        self._signal_others(signal.SIGSTOP)
        self._still = self.alive and freeze(self._everything)
        if not self._still:
            self._home.kill()
            raise Died("something it had started could not be kept still")

    def go_on(self) -> None:
        """Undo `stop`."""
        self._still = False
        for process in self._everything():
            _quietly(process.send_signal, signal.SIGCONT)

    def _everything(self) -> list[psutil.Process]:
        return [process for home in self._homes() for process in home.everything()]

    def _homes(self) -> list[Bare | sandbox.Sandbox]:
        return [*self._spawned, *([self._home] if self._home else [])]

    def close(self) -> None:
        """End the bench and everything below it."""
        if self._control is not None:
            self._control.close()
        for home in self._homes():
            home.kill()
        if not self._walled:
            shutil.rmtree(self._scratch, ignore_errors=True)


def bench_environment(threads: int | None) -> dict[str, str]:
    """The environment a bench starts with: the caller's, less what would let code in or secrets out."""
    dropped = ("PYTHON", "JPY_", "NBGRADER")
    return {k: v for k, v in os.environ.items() if not k.startswith(dropped)} | _added(threads)


def _added(threads: int | None) -> dict[str, str]:
    added = {"AUTOGRADER_BENCH": "1", "MPLBACKEND": "Agg", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    added["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # else a worker starts a pool of compilers, each as large as itself
    if threads:
        added |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return added


def function_source(function: Callable) -> tuple[str, str]:
    """(source, name) of a static function of an exercise, without its decorators and indentation."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    while lines and not lines[0].startswith("def "):
        lines.pop(0)
    return "\n".join(lines) + "\n", function.__name__


def tree(pid: int) -> list[psutil.Process]:
    """A process and everything below it; empty when it is gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def memory_bytes(pid: int) -> int:
    """Main memory that a process holds, files left out; 0 when it is gone or the system does not say."""
    try:
        return sandbox.held_memory(Path(f"/proc/{pid}/status").read_text("utf-8"))
    except OSError:
        return 0


def freeze(processes: Callable[[], list[psutil.Process]]) -> bool:
    """Stop processes until no new one appears. False if there is always one more, or if one does not stand still."""
    still: set[psutil.Process] = set()
    for _ in range(MOST_TRIES):
        if not (new := [process for process in processes() if process not in still]):
            return True
        for process in new:
            _quietly(process.send_signal, signal.SIGSTOP)
        until = time.monotonic() + STOP_SECONDS
        while not all(map(_stands, new)):
            if time.monotonic() > until:
                return False
            time.sleep(0.0005)
        still.update(new)
    return False


def _stands(process: psutil.Process) -> bool:
    """Whether no thread of a process runs. A signal to stop waits for the end of some calls of the system."""
    if _quietly(process.status) not in STANDING:
        return False
    try:
        states = [state.read_text("utf-8") for state in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    except OSError:  # a thread has just ended
        return not process.is_running()
    return all(state.rpartition(")")[2].split()[0] in "TtZX" for state in states)


def kill_all(processes: Callable[[], list[psutil.Process]]) -> bool:
    """Kill processes, again and again until nothing new appears. False if new ones appear faster than they die."""
    for _ in range(MOST_TRIES):
        alive = [p for p in processes() if _quietly(p.status) not in (None, psutil.STATUS_ZOMBIE)]
        if not alive:
            return True
        for process in alive:
            _quietly(process.kill)
        psutil.wait_procs(alive, timeout=0.05)
    return False


def _quietly(method: Callable, *args) -> Any:
    try:
        return method(*args)
    except psutil.Error:
        return None


def _send_program(channel: socket.socket) -> None:
    here = resources.files("autograder.judge")
    sources = {f"autograder.judge.{name}": (here / f"{name}.py").read_text("utf-8") for name in ("wire", "bench")}
    data = json.dumps(sources).encode()
    try:
        channel.sendall(struct.pack(">Q", len(data)) + data)
    except OSError as error:
        raise BenchError(f"learners' code cannot be run here ({error})") from None
