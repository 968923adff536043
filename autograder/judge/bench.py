"""The program of a bench: the process in which learners' code runs.

A bench imports torch once, and transformers where the chapter needs it, computes nothing, and forks a fresh worker per
exercise (a child forked after the first matrix product would hang). It holds no clock that counts, no expected answer
and no verdict. Its source is sent to a bare interpreter together with `wire`'s, so nothing of the judge needs to be
importable there.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import ctypes
import gc
import inspect
import linecache
import os
import resource
import shutil
import signal
import socket
import sys
import time
import types
import warnings

import psutil

from autograder.judge.wire import Closed, receive, send

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
REAP_SECONDS = 1.0
MAX_FRAMES = 6
MAX_FRAME = 240  # characters
_ended: dict[int, int] = {}  # wait statuses nobody has asked for yet


def main(fd: int) -> None:
    """Serve one judge over the socket `fd`: first a greeting, then what it asks for until it hangs up."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGCONT)  # a bench that was stopped must notice that its judge is gone
    control = socket.socket(fileno=fd)
    greeting = receive(control)
    _prctl(PR_SET_DUMPABLE, 0)  # so that no worker reads or writes the memory of its bench
    if not greeting["walled"]:  # where they are, process 1 collects orphans
        _keep_orphans()
    for name, most in greeting["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    try:
        _copy_compile_cache(greeting["compile_cache"], greeting["scratch"])
        _import_heavy_things(greeting["libraries"])
        send(control, {"ready": os.getpid()})
        while True:
            message = receive(control)
            number = None
            if message["do"] == "fork":
                number = _fork(control, message)
            elif message["do"] == "reap":
                number = _reap(message["pid"])
            elif message["do"] == "signal":  # only in a sandbox, where these are the worker and what it started
                with contextlib.suppress(ProcessLookupError):
                    os.kill(-1, message["signal"])
            send(control, {"token": message["token"], "number": number})
    except Closed:
        _end_everything_below()
        shutil.rmtree(greeting["scratch"], ignore_errors=True)


def _end_everything_below() -> None:
    """Kill whatever the judge left behind: as orphans are adopted here, all of it is below us."""
    while below := psutil.Process().children(recursive=True):
        for process in below:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(below, timeout=0.1)


def alone(fd: int) -> None:
    """Be one worker without a bench around it, where forking is not safe."""
    channel = socket.socket(fileno=fd)
    greeting = receive(channel)
    _import_heavy_things(greeting["libraries"])
    send(channel, {"ready": os.getpid()})
    _limit(greeting)
    serve(channel)


def _keep_orphans() -> None:
    """Adopt whatever outlives its parent below us, so that everything a submission starts can be found."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _import_heavy_things(libraries: list[str]) -> None:
    import torch  # noqa: F401

    if "transformers" in libraries:
        import transformers.cache_utils
        import transformers.models.llama.modeling_llama  # noqa: F401

    import autograder.lab

    for name in autograder.__all__:  # a notebook's first cell imports these; what they need is not here
        setattr(autograder, name, _absent(name))
    gc.collect()
    gc.freeze()  # a worker that looks at what it holds need not look at any of this


def _absent(name: str):
    def absent(*args, **kwargs):
        raise RuntimeError(f"{name}(...) cannot be called from an answer")

    absent.__name__ = name
    return absent


def _copy_compile_cache(warmed: str, scratch: str) -> None:
    """Make the folder `scratch` with a copy of the warmed compile cache: it holds code, so it is never shared."""
    os.mkdir(scratch, 0o700)
    own = os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(scratch, "compile")
    if os.path.isdir(warmed):
        shutil.copytree(warmed, own)


def _fork(control: socket.socket, wanted: dict) -> int:
    """The number of a new worker."""
    _, (fd,), _, _ = socket.recv_fds(control, 1, 1)
    pid = os.fork()
    if pid:
        os.close(fd)
        return pid
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(PR_SET_DUMPABLE, 1)
    control.close()
    os.setpgid(0, 0)
    try:
        _limit(wanted)
        serve(socket.socket(fileno=fd))
    finally:
        os._exit(0)


def _reap(pid: int) -> int | None:
    """The wait status of a worker, or None when it is still running a second later. Collects orphans as well."""
    until = time.monotonic() + REAP_SECONDS
    while time.monotonic() < until:
        try:
            found, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if found:
            _ended[found] = status
        elif pid not in _ended:
            time.sleep(0.005)
        if pid in _ended and not found:
            break
    return _ended.pop(pid, None)


def _limit(wanted: dict) -> None:
    """Nowhere to print, bounded memory and processor time, and random numbers of its own."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    os.close(nowhere)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_DATA, (wanted["memory_bytes"], wanted["memory_bytes"]))
        resource.setrlimit(resource.RLIMIT_CPU, (wanted["cpu_seconds"], wanted["cpu_seconds"] + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import torch

    torch.seed()


def serve(channel: socket.socket) -> None:
    """Load a learner's statements, take `run` functions, run them on challenges, until the judge hangs up."""
    learner = types.ModuleType("__main__")
    functions: dict[str, types.FunctionType] = {}
    try:
        while True:
            message = receive(channel)
            match message["do"]:
                case "load":
                    send(channel, load(learner, message))
                case "define":
                    try:
                        functions[message["as"]] = define(message["source"], message["name"])
                        send(channel, {"defined": message["as"]})
                    except Exception as error:
                        send(channel, {"failed": f"{type(error).__name__}: {error}"})
                case "run":
                    send(channel, run(channel, learner, functions[message["as"]], message))
    except Closed:
        pass


def load(learner: types.ModuleType, message: dict) -> dict:
    """Execute the kept statements one by one; a failing one binds nothing, as in a notebook, and is reported."""
    warnings.simplefilter("ignore")
    if message.get("another"):
        _salt_anew()
    sys.modules["__main__"] = learner
    learner.__dict__.setdefault("__builtins__", builtins)
    learner.display = lambda *things, **options: None
    trees = []
    for cell in message["cells"]:
        lines = cell["source"].splitlines(keepends=True)
        linecache.cache[cell["file"]] = (len(cell["source"]), None, lines, cell["file"])
        trees.append(ast.parse(cell["source"]).body)
    files = {cell["file"] for cell in message["cells"]}
    learner.__dict__["__files__"] = files
    failures = []
    for cell, index, names in message["keep"]:
        statement = trees[cell][index]
        file = message["cells"][cell]["file"]
        try:
            module = ast.Module([statement], type_ignores=[])
            flags = message["flags"] | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            code = compile(module, file, "exec", flags=flags, dont_inherit=True)
            result = eval(code, learner.__dict__)
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(result)
        except BaseException as error:
            failures.append(raised(error, files) | {"names": names})
    return {"failures": failures, "missing": [n for n in message["needs"] if not hasattr(learner, n)]}


def _salt_anew() -> None:
    """Let `hash` of texts and bytes give what it would where Python starts again: forked workers share one salt.

    What is not reached: `text.__hash__()` called by that name, and the order of a set of texts.
    """
    of_this_bench, salt = builtins.hash, os.urandom(8)

    def has_text(value) -> bool:
        parts = isinstance(value, tuple | frozenset)
        return isinstance(value, str | bytes) or (parts and any(map(has_text, value)))

    def salted(value, /):
        return of_this_bench((salt, value) if has_text(value) else value)

    salted.__name__ = "hash"
    builtins.hash = salted


def define(source: str, name: str) -> types.FunctionType:
    """The course's own function from its source, in a namespace of its own."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict = {"__name__": "course"}
    exec(compile(source, file, "exec", dont_inherit=True), namespace)
    return namespace[name]


def run(channel: socket.socket, learner: types.ModuleType, function, message: dict) -> dict:
    """The function's answer for one challenge, or what it raised."""
    challenge = dict(message["data"])
    for name in message["calls"]:
        challenge[name] = _remote(channel, name)
    arguments = (learner, challenge) if message["with_learner"] else (challenge,)
    try:
        return {"answer": function(*arguments)}
    except BaseException as error:
        return {"raised": raised(error, learner.__dict__.get("__files__", ()))}


def _remote(channel: socket.socket, name: str):
    def call(*args, **kwargs):
        send(channel, {"call": name, "args": list(args), "kwargs": kwargs})
        reply = receive(channel)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["value"]

    call.__name__ = name
    return call


def raised(error: BaseException, files) -> dict:
    """An exception as plain data, with the learner's own lines only."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename in files:
            line = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            where = "" if code.co_name == "<module>" else f" in {code.co_name}"
            frames.append(f"{code.co_filename}, line {trace.tb_lineno}{where}: {line}")
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename in files:
        frames.append(f"{error.filename}, line {error.lineno}: {(error.text or '').strip()}")
    try:
        text = str(error)
    except BaseException:
        text = ""
    frames = [frame[:MAX_FRAME] for frame in frames[-MAX_FRAMES:]]
    return {"kind": type(error).__name__[:100], "message": text[:600], "frames": frames}
