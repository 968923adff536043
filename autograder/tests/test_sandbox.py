"""Every wall of the sandbox, and somebody who tries to get over it: as root, and once more as an ordinary user."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

import autograder
from autograder import lab
from autograder.exercise import Challenge, Exercise, Raised, Rung
from autograder.judge import Cell, Judge, TierError, sandbox
from autograder.judge.process import Bench, BenchError, Died
from autograder.tests.processes import still_running

pytestmark = [pytest.mark.cheats, pytest.mark.skipif(sys.platform != "linux", reason="sandboxes need Linux")]
REPOSITORY = Path(__file__).parents[2]
ROOT = os.geteuid() == 0
SECONDS = 60


class Probe:
    """A learner's function on a walled bench, and what it brings back."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @contextlib.contextmanager
    def worker(self, source: str, *, memory_bytes: int = 2 << 30, cpu_seconds: float = SECONDS):
        worker = self.bench.worker(memory_bytes=memory_bytes, cpu_seconds=cpu_seconds)
        deadline = time.monotonic() + SECONDS
        try:
            worker.define("run", lambda_source, deadline)
            cells = [{"source": textwrap.dedent(source), "file": "cell 1"}]
            worker.load(
                cells, [[0, i, []] for i in range(source.count("\n") + 1)][: statements(source)], 0, (), deadline
            )
            yield worker
        finally:
            worker.close()

    def finds(self, source: str, seconds: float = SECONDS, **limits):
        """What the learner's `probe()` returns; a `Raised` when it raises. Raises Died and TimedOut."""
        with self.worker(source, **limits) as worker:
            return worker.run("run", Challenge({}), time.monotonic() + seconds)


def lambda_source(learner, challenge):
    return learner.probe()


def statements(source: str) -> int:
    import ast

    return len(ast.parse(textwrap.dedent(source)).body)


@pytest.fixture(scope="module")
def probe():
    why = sandbox.why_not()
    assert why is None, f"{why}: what the course promises cannot be tested here"
    bench = Bench(threads=1, walled=True)
    yield Probe(bench)
    bench.close()


@pytest.fixture(scope="module")
def neighbour():
    bench = Bench(threads=1, walled=True)
    yield Probe(bench)
    bench.close()


# what can be seen


def test_nothing_of_the_course_but_the_lab_can_be_found_or_imported(probe):
    source = """
    import os
    def probe():
        found = []
        for folder, folders, files in os.walk("/"):
            folders[:] = [f for f in folders if os.path.join(folder, f) not in ("/proc", "/sys")]
            found += [os.path.join(folder, f) for f in files]
        imported = []
        for name in ("chapters", "judge", "course", "classroom", "tests", "cli", "exercise"):
            try:
                __import__("autograder." + name)
                imported.append(name)
            except ImportError:
                pass
        import autograder
        return found, imported, os.listdir(os.path.dirname(autograder.__file__)), autograder.lab.__name__
    """
    found, imported, package, lab_name = probe.finds(source)
    ours = {path.name for room in ("chapters", "judge", "course", "classroom") for path in package_files(room)}
    ours -= {
        "__init__.py",
        "progress.py",
        "sandbox.py",
        "cluster.py",
        "release.py",
        "process.py",
    }  # names others use too
    assert lab_name == "autograder.lab" and sorted(package) == ["__init__.py", "lab"]
    assert imported == ["judge"] or imported == []  # the bench's own two modules came over the wire
    assert not [path for path in found if Path(path).name in ours and "autograder" in path]
    assert not [path for path in found if path.endswith((".ipynb", "gradebook.db")) and "site-packages" not in path]
    assert not [
        path
        for path in found
        if path.startswith(f"{REPOSITORY}/")
        and "/.venv/" not in path
        and not path.startswith(f"{REPOSITORY}/autograder/")
    ]


def package_files(room: str) -> list[Path]:
    return list((Path(autograder.__file__).parent / room).glob("*.py"))


def test_files_of_the_machine_and_of_others_are_not_there(probe, tmp_path):
    (tmp_path / "another_submission.ipynb").write_text("{}")
    (tmp_path / "another_submission.ipynb").chmod(0o644)
    secrets = ["/etc/shadow", "/etc/passwd", "/etc/hostname", "/home", "/var", "/run", "/boot", "/mnt"]
    secrets += [str(REPOSITORY / name) for name in ("source", "gradebook.db", ".git")]
    secrets += [str(tmp_path), str(Path.home() / ".profile")]
    secrets += [f"/proc/1/{path}" for path in ("root/etc/shadow", "root/var")]
    source = f"""
    import os
    def probe():
        return [path for path in {secrets!r} if os.path.exists(path)]
    """
    assert probe.finds(source) == []


def test_no_other_process_can_be_seen_signalled_or_read(probe):
    source = f"""
    import os, signal
    def probe():
        reached = []
        for pid in ({os.getpid()}, {os.getppid()}):
            try:
                os.kill(pid, 0)
                reached.append(pid)
            except OSError:
                pass
        seen = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        text = "".join(open(f"/proc/{{pid}}/cmdline").read() for pid in seen)
        environments = []
        for pid in seen:
            try:
                environments.append(open(f"/proc/{{pid}}/environ").read())
            except OSError:
                pass
        environments.append(str(os.environ))
        return reached, len(seen), "pytest" in text, "SECRET_OF_THE_TEACHER" in "".join(environments)
    """
    os.environ["SECRET_OF_THE_TEACHER"] = "42"
    bench = Bench(threads=1, walled=True)
    try:
        reached, seen, ours, secret = Probe(bench).finds(source)
    finally:
        bench.close()
        del os.environ["SECRET_OF_THE_TEACHER"]
    assert reached == [] and seen <= 4 and not ours and not secret


def test_no_file_of_the_judges_stays_open_inside(probe):
    source = """
    import os
    def probe():
        return sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in os.listdir("/proc/self/fd") if int(n) > 2
                      and os.path.lexists(f"/proc/self/fd/{n}"))
    """
    assert probe.finds(source) == ["socket"]


# who it is


def test_it_has_a_real_uid_of_its_own_and_no_capability(probe, neighbour):
    source = """
    import os
    def probe():
        caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("Cap")]
        tried = []
        for call in ("setuid(0)", "setgid(0)", "chown('/tmp', 0, 0)", "chroot('/tmp')"):
            try:
                eval("os." + call)
                tried.append(call)
            except OSError:
                pass
        return os.getuid(), sorted(set(caps)), tried, os.getgroups()
    """
    with probe.worker(source) as worker:
        uid, capabilities, tried, groups = worker.run("run", Challenge({}), time.monotonic() + SECONDS)
        outside = psutil.Process(worker.pid).uids().real
    assert capabilities == ["0" * 16] and tried == []
    assert outside == uid
    if ROOT:
        assert uid >= 1000 and groups in ([], [uid])
        assert neighbour.finds(source)[0] != uid


def test_set_user_id_programs_give_nothing(probe):
    source = """
    import subprocess
    def probe():
        done = subprocess.run(["su", "-c", "id"], capture_output=True, text=True)
        return done.returncode, "NoNewPrivs:\\t1" in open("/proc/self/status").read()
    """
    status, no_new = probe.finds(source)
    assert status != 0 and no_new


# what it may change


def test_only_tmp_and_shm_can_be_written_and_both_have_a_size(probe):
    source = """
    import errno, os
    def fill(path):
        written = 0
        try:
            for n in range(64):
                with open(f"{path}/f{n}", "wb") as file:
                    for _ in range(16):
                        written += file.write(bytes(1 << 20))
        except OSError as error:
            return written, errno.errorcode[error.errno]
        return written, "never full"
    def probe():
        import autograder, sys, torch
        places = ["/", "/dev", "/etc", "/usr", "/usr/bin", "/proc/sys/kernel", "/var/tmp", sys.prefix]
        places += [os.path.dirname(m.__file__) for m in (autograder, torch)] + [os.environ["AUTOGRADER_CACHE"]]
        writable = [place for place in places if os.access(place, os.W_OK)]
        for place in places:
            try:
                open(os.path.join(place, "x"), "w")
                writable.append(place)
            except OSError:
                pass
        return writable, fill("/dev/shm"), fill("/tmp")
    """
    writable, shared, scratch = probe.finds(source)
    assert writable == []
    for (written, how), size in ((shared, sandbox.SHARED_BYTES), (scratch, sandbox.SCRATCH_BYTES)):
        assert how == "ENOSPC" and written <= size


CALLS = {
    "a namespace": "libc.unshare(0x10000000)",
    "a namespace by clone": "libc.syscall(56 if x86 else 220, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "libc.syscall(435, 0, 0)",
    "a mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "another mount": "libc.syscall(430, b'tmpfs', 0)",
    "memory in a nameless file": "libc.memfd_create(b'x', 0)",
    "System V memory": "libc.shmget(0, 4096, 0o1600)",
    "a message queue": "libc.mq_open(b'/x', 0o102, 0o600, None)",
    "the kernel's keys": "libc.syscall(250 if x86 else 219, 0, -3, 0, 0, 0)",
    "tracing": "libc.ptrace(16, os.getppid(), None, None)",
    "others' memory": "libc.syscall(310 if x86 else 270, os.getppid(), None, 0, None, 0, 0)",
    "others' open files": "libc.syscall(438, 3, 0, 0)",
    "others' cores": "libc.syscall(203 if x86 else 122, 0, 8, b'\\xff' * 8)",
    "a ring of calls": "libc.syscall(425, 1, None)",
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_calls_that_would_open_a_way_out_are_refused(probe, call):
    source = f"""
    import ctypes, os, platform
    def probe():
        libc, x86 = ctypes.CDLL(None, use_errno=True), platform.machine() == "x86_64"
        done = {call}
        if done == 0 and "clone" in {call!r}:
            os._exit(0)
        return done, ctypes.get_errno()
    """
    done, errno = probe.finds(source)
    assert done == -1 and errno in (1, 38)


# the network


def test_there_is_no_network(probe):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        name = f"\0autograder-test-{os.getpid()}"
        named.bind(name)
        named.listen()
        source = f"""
        import socket
        def probe():
            reached = []
            for family, address in ((socket.AF_INET, ("127.0.0.1", {server.getsockname()[1]})),
                                    (socket.AF_INET, ("1.1.1.1", 53)), (socket.AF_UNIX, {name!r})):
                try:
                    with socket.socket(family) as s:
                        s.settimeout(3)
                        s.connect(address)
                    reached.append(address)
                except OSError:
                    pass
            return reached, [name for _, name in socket.if_nameindex()]
        """
        assert probe.finds(source) == ([], ["lo"])


def test_a_socket_holds_no_memory_that_nothing_counts(probe):
    source = """
    import socket
    def probe():
        pairs = []
        for family in (socket.AF_INET, socket.AF_INET6):
            try:
                pairs.append(socket.socket(family))
            except OSError:
                pass
        return len(pairs)
    """
    assert probe.finds(source) == 0


# what it may use up


def test_one_process_cannot_have_more_memory_than_allowed_and_is_told_cleanly(probe):
    source = """
    import torch
    def probe():
        return torch.ones(1 << 29).sum().item()
    """
    answer = probe.finds(source, memory_bytes=1 << 30)
    assert isinstance(answer, Raised) and "memory" in answer.message


def test_many_processes_together_cannot_have_more_either(probe):
    source = """
    import os, time
    def probe():
        for _ in range(8):
            if os.fork() == 0:
                kept = bytearray(400 << 20)
                time.sleep(60)
        time.sleep(60)
    """
    with pytest.raises(Died, match=r"all its processes together used more than 1.1 GB of memory"):
        probe.finds(source, memory_bytes=1 << 30)
    assert probe.finds("def probe(): return 'next'") == "next"


def test_shared_memory_without_a_name_counts_too(probe):
    source = """
    import mmap
    def probe():
        kept = mmap.mmap(-1, 3 << 30)
        for offset in range(0, 3 << 30, 4096):
            kept[offset] = 1
        return "filled"
    """
    with pytest.raises(Died, match="used more than"):
        probe.finds(source, memory_bytes=1 << 29)


def test_processes_are_counted_per_sandbox(probe, neighbour):
    fork = """
    import threading, time
    def probe():
        started = 0
        try:
            for _ in range(1000):
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
                started += 1
        except RuntimeError:
            pass
        return started
    """
    one = """
    import os
    def probe():
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        return os.waitpid(pid, 0)[1] >> 8
    """
    with probe.worker(fork) as worker:
        started = worker.run("run", Challenge({}), time.monotonic() + SECONDS)
        assert started < sandbox.PROCESSES
        assert neighbour.finds(one) == 7


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core cannot be shared out")
def test_a_sandbox_with_fewer_cores_than_there_are_keeps_to_those_of_its_place(probe, neighbour):
    source = """
    import os
    def probe():
        return sorted(os.sched_getaffinity(0))
    """
    cores = sorted(os.sched_getaffinity(0))
    for one in (probe, neighbour):
        assert one.finds(source) == [cores[one.bench._home._slot.number % len(cores)]]


def test_empty_files_count_as_memory(probe):
    source = """
    import os
    def probe():
        try:
            for i in range(10_000_000):
                os.close(os.open(f"/dev/shm/{i}", os.O_CREAT))
        except OSError:
            return "full"
    """
    try:
        assert probe.finds(source, memory_bytes=1 << 20) == "full"
    except Died as death:
        assert "used more than" in str(death)


def test_processor_time_ends(probe):
    with pytest.raises(Died, match="processor time"):
        probe.finds("def probe():\n    while True: pass", cpu_seconds=1)


def test_no_file_grows_without_end(probe):
    source = """
    import os
    def probe():
        with open("/tmp/f", "wb") as file:
            os.ftruncate(file.fileno(), 1 << 40)
    """
    try:
        answer = probe.finds(source)
    except Died as death:
        assert "longer than is allowed" in str(death)
    else:
        assert isinstance(answer, Raised) and "OSError" in answer.kind


# stopping and killing

DAEMON = """
import os, time
def probe():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            end = time.time() + 100
            while time.time() < end: pass
        os._exit(0)
    time.sleep(0.3)
    return "started"
"""


def inside(probe: Probe) -> list[psutil.Process]:
    return probe.bench._home.everything()


def test_a_daemon_is_stopped_with_its_worker_and_ended_with_it(probe):
    with probe.worker(DAEMON) as worker:
        assert worker.run("run", Challenge({}), time.monotonic() + SECONDS) == "started"
        probe.bench.stop()
        daemon = max(inside(probe), key=lambda process: process.cpu_times().user if process != probe.bench._own else -1)
        before = daemon.cpu_times().user
        time.sleep(0.3)
        assert {process.status() for process in inside(probe)} <= {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
        assert daemon.cpu_times().user == before
        probe.bench.go_on()
    assert [process.pid for process in inside(probe)] == [probe.bench._own.pid]
    assert not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE


def test_closing_ends_everything_at_once_and_gives_the_place_back():
    bench = Bench(threads=1, walled=True)
    probe = Probe(bench)
    worker = bench.worker()
    deadline = time.monotonic() + SECONDS
    worker.define("run", lambda_source, deadline)
    worker.load([{"source": DAEMON, "file": "cell 1"}], [[0, 0, []], [0, 1, []]], 0, (), deadline)
    worker.run("run", Challenge({}), deadline)
    processes, number, uid = inside(probe), bench._home._slot.number, bench._home.uid
    assert len(processes) >= 3  # bench, worker, daemon
    bench.close()
    assert not still_running(processes)
    assert not ROOT or not [p for p in psutil.process_iter(["uids"]) if p.info["uids"] and p.info["uids"].real == uid]
    slot = sandbox.Slot()
    assert slot.number <= number
    slot.free()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_a_sandbox_does_not_outlive_its_judge(how):
    program = (
        f"import time\nfrom autograder.judge.process import Bench\nfrom autograder.tests.test_sandbox import *\n"
        "bench = Bench(threads=1, walled=True)\n"
        f"with Probe(bench).worker({DAEMON!r}) as worker:\n"
        "    worker.run('run', Challenge({}), time.monotonic() + 60)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)"
    )
    judge = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert judge.stdout.readline() == "ready\n"
    below = psutil.Process(judge.pid).children(recursive=True)
    judge.send_signal(how)
    judge.wait(timeout=10)
    judge.stdout.close()
    assert len(below) >= 5 and not still_running(below)


# the compile cache


def test_each_bench_has_a_compile_cache_of_its_own(probe, neighbour):
    source = """
    import os
    def probe():
        own = os.environ["TORCHINDUCTOR_CACHE_DIR"]
        before = sorted(os.listdir(own)) if os.path.isdir(own) else []
        os.makedirs(own, exist_ok=True)
        open(os.path.join(own, "planted.py"), "w").write("x")
        return own, before
    """
    own, _ = probe.finds(source)
    assert own.startswith("/tmp/")
    assert "planted.py" not in neighbour.finds(source)[1]
    assert not list(lab.setup.compile_cache().glob("planted*"))


# where it cannot work


def test_where_all_places_are_taken_nobody_gets_a_mark_for_it(monkeypatch):
    monkeypatch.setattr(sandbox, "SLOTS", 0)
    with Judge(tier="sandbox") as judge, pytest.raises(BenchError, match="there is no sandbox"):
        judge.judge(Answer(), [Cell("def answer(x): return x", "a", 1)])


def test_where_bubblewrap_is_missing_the_tier_is_refused_in_a_sentence(monkeypatch):
    sandbox._try_out.cache_clear()
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *a, **k: None if name == "bwrap" else which(name, *a, **k))
    with pytest.raises(TierError, match="the sandbox tier cannot be used here, for bubblewrap is not installed"):
        Judge(tier="sandbox")
    monkeypatch.undo()
    assert sandbox.why_not() is None, "a failure is not remembered"


# a whole judgement


class Answer(Exercise):
    """The number that a challenge holds."""

    RUNG = "the number comes back"
    name = "answer"
    rungs = {RUNG: 2}  # noqa: RUF012
    seconds = 6

    def challenges(self, rng):
        yield Challenge({"x": float(rng.uniform(1, 9))})

    @staticmethod
    def run(learner, challenge):
        return learner.answer(challenge["x"])

    def verify(self, challenge, answer):
        yield Rung(self.RUNG, answer == challenge["x"], "another number")


def test_a_judge_in_a_sandbox_judges_and_leaves_nothing_behind():
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    with Judge(tier="sandbox") as judge:
        for source, outcomes in (
            ("def answer(x): return x", {"full"}),
            ("import os\ndef answer(x): os.kill(-1, 9)", {"died", "none"}),  # it may answer before it dies
            ("def answer(x):\n    while True: pass", {"timeout"}),
            ("def answer(x): return x", {"full"}),
        ):
            verdict = judge.judge(Answer(), [Cell(source, "a", 1)])
            assert verdict.outcome in outcomes and verdict.tier == "sandbox", verdict
    assert not still_running([p for p in psutil.Process().children(recursive=True) if p.pid not in before])
    assert "newroot" not in Path("/proc/self/mountinfo").read_text()


@pytest.mark.skipif(not ROOT, reason="these tests have just run as an ordinary user")
def test_all_of_this_holds_for_an_ordinary_user_too(tmp_path):
    """The same tests in a process that is nobody's, with what it must read put within its reach."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    shown = [sys.base_prefix, sys.prefix, str(REPOSITORY), str(lab.cache_dir())]
    shown += [entry for entry in sys.path if entry.endswith("site-packages")]
    walls = ["--dev-bind", "/", "/", "--perms", "0755", "--tmpfs", "/root", "--tmpfs", "/home"]
    for path in dict.fromkeys(shown):
        for parent in reversed(Path(path).parents):
            if str(parent).startswith(("/root", "/home")) and len(parent.parts) > 2:
                walls += ["--perms", "0755", "--dir", str(parent)]
        walls += ["--ro-bind", path, path]
    walls += ["--bind", str(home), "/home", "--chdir", "/home"]
    nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
        "--",
    ]
    tests = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp=/home/t",
        "--rootdir=/home",
    ]
    environment = os.environ | {"HOME": "/home", "TMPDIR": "/home", "AUTOGRADER_CACHE": str(lab.cache_dir())}
    command = ["bwrap", *walls, *nobody, *tests, str(Path(__file__)), "-k", "not ordinary_user"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "skipped" not in done.stdout.splitlines()[-1]
