"""Where the judging of a class is done: in this process, on all cores of this machine, or on a Dask cluster.

There are two kinds of work. Correctness is packed on all cores. Measuring comes after it, one submission at a time
per machine, or per `timing` token where workers declare such a resource (one per GPU). Workers get plain data and give
back a verdict as text; they never touch the gradebook, nor does anything they return get unpickled from a learner.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

from autograder import lab
from autograder.classroom import verdicts
from autograder.classroom.verdicts import Progress, Work
from autograder.judge import Report
from autograder.judge.process import kill_all
from autograder.lab import LabError

TOKEN = "timing"  # the resource of a worker that may measure
CONNECT_SECONDS = 30
CLOSE_SECONDS = 10
# What Dask sets for its workers and a learner's code must not run with.
NOT_FOR_BENCHES = ("MALLOC_TRIM_THRESHOLD_", "OPENBLAS_NUM_THREADS")

Judged = tuple[str, Report | Exception]  # whose, and what came of it
Timed = tuple[str, tuple[Report, str] | Exception]  # the same, with the kind of machine that measured


class ClusterError(LabError):
    """The cluster cannot be used, or is gone; one sentence."""


class OneByOne:
    """Work done in this process, one submission after the other."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def judging(self, works: Mapping[str, Work]) -> Iterator[Judged]:
        """The verdict on each, by the key it came with, as it is asked for."""
        for key, work in works.items():
            yield key, _attempt(lambda work=work: verdicts.judged(work, progress=self._progress))

    def timing(self, works: Mapping[str, tuple[Work, Report]]) -> Iterator[Timed]:
        """The same verdicts with their speeds."""
        for key, (work, report) in works.items():
            made = _attempt(lambda work=work, report=report: verdicts.timed(work, report, progress=self._progress))
            yield key, made if isinstance(made, Exception) else (made, verdicts.machine_class())


class OnDask:
    """Work done by the workers of a Dask cluster."""

    def __init__(self, client) -> None:
        self._client = client

    def machines(self) -> list[str]:
        """The kinds of machine that may measure. Raises ClusterError when a worker has another course, or none."""
        try:
            found = self._client.run(_introduction)
        except Exception as error:
            raise ClusterError(f"the course cannot be used by the cluster's workers: {error}") from None
        wrong = [address for address, (course, _) in found.items() if course != verdicts.course_version()]
        if wrong:
            raise ClusterError(f"the worker at {wrong[0]} has another version of the course: install this one there")
        tokens = _tokens(self._workers())
        return sorted({machine for address, (_, machine) in found.items() if not tokens or address in tokens})

    def judging(self, works: Mapping[str, Work]) -> Iterator[Judged]:
        """The verdict on each, by the key it came with, in the order in which they are done. They are begun at once."""
        sharing = max(_slots_by_host(self._workers()).values(), default=1)
        futures = {self._submit(_judged, work, sharing): key for key, work in works.items()}
        return ((futures[future], _outcome_of(future, _report)) for future in _as_done(futures))

    def timing(self, works: Mapping[str, tuple[Work, Report]]) -> Iterator[Timed]:
        """The same verdicts with their speeds. A place gets its next one when its last has been taken in here."""
        waiting = iter(works.items())
        futures: dict = {}

        def begin(where: dict) -> list:
            begun = []
            for key, (work, report) in itertools.islice(waiting, 1):
                begun.append(self._submit(_timed, work, json.dumps(report.to_json()), **where))
                futures[begun[0]] = key, where
            return begun

        begun = [future for where in _places_to_time(self._workers()) for future in begin(where)]
        done = _as_done(begun)
        for future in done:
            key, where = futures.pop(future)
            yield key, _outcome_of(future, _report_and_machine)
            done.update(begin(where))

    def _workers(self) -> dict[str, dict]:
        return self._client.scheduler_info(n_workers=-1)["workers"]

    def _submit(self, function: Callable, *args, **where):
        return self._client.submit(function, *args, pure=False, **where)


@contextlib.contextmanager
def own(workers: int, progress: Progress) -> Iterator[OneByOne | OnDask]:
    """A place to work on this machine with as many processes; nothing of it is left when it closes."""
    folder = _folder_of_workers()
    if workers <= 1:
        yield OneByOne(progress)
        return
    import dask
    from distributed import Client, LocalCluster
    from distributed.gc import disable_gc_diagnosis
    from distributed.security import Security

    folder.mkdir()
    settings = {
        "temporary-directory": str(folder),
        "distributed.scheduler.http.routes": [],  # nobody is told anything over HTTP
        "distributed.worker.http.routes": [],
        "distributed.scheduler.worker-saturation": 1.0,  # a worker that dies takes one submission with it, not two
        "distributed.worker.daemon": False,
        "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s",
        "distributed.admin.tick.limit": "1h",
    }
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(dask.config.set(settings))
        stack.enter_context(_silent("distributed"))
        started = stack.enter_context(_ended_at_last())
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            security=Security.temporary(),  # other users of this machine can reach the loopback, too
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # else the port of all Dask clusters
            memory_limit=0,
            local_directory=str(folder),
            silence_logs=logging.CRITICAL + 1,
            preload=[__name__],
            env={"TMPDIR": str(folder)},  # of what dies with a worker, too
        )
        stack.callback(cluster.close, timeout=CLOSE_SECONDS)
        client = stack.enter_context(Client(cluster, timeout=CONNECT_SECONDS))
        stack.callback(started.take_note)
        disable_gc_diagnosis(force=True)  # a Ctrl-C that falls into its callback is lost
        yield OnDask(client)


@contextlib.contextmanager
def existing(address: str) -> Iterator[OnDask]:
    """The Dask cluster at an address. Raises ClusterError when there is none, or it has no workers."""
    from distributed import Client

    with contextlib.ExitStack() as stack:
        stack.enter_context(_silent("distributed"))
        try:
            client = stack.enter_context(Client(address, timeout=CONNECT_SECONDS))
        except (OSError, ValueError, TypeError) as error:
            raise ClusterError(f"there is no Dask scheduler at {address} ({error})") from None
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise ClusterError(f"the Dask scheduler at {address} has no workers") from None
        yield OnDask(client)


def dask_setup(worker) -> None:
    """Called by Dask in each of our own workers: Ctrl-C is for the process that grades, which ends its workers."""
    os.setpgid(0, 0)


def _introduction() -> tuple[str, str]:
    """A worker's version of the course and kind of machine."""
    return verdicts.course_version(), verdicts.machine_class()


def _judged(work: Work, sharing: int) -> str:
    """In a worker: the verdict without speeds, as text, with this worker's share of the cores."""
    threads = max(1, lab.hardware.usable_cores() // sharing)
    _prepare(work, threads)
    return json.dumps(verdicts.judged(work, threads=threads).to_json())


def _timed(work: Work, report: str) -> str:
    """In a worker: the verdict with its speeds, and this kind of machine, as text."""
    _prepare(work, lab.hardware.usable_cores())
    made = verdicts.timed(work, Report.from_json(json.loads(report)))
    return json.dumps({"report": made.to_json(), "machine": verdicts.machine_class()})


def _prepare(work: Work, threads: int) -> None:
    """Undo in a worker what Dask has set for its own purposes. Raises ClusterError for work of another version."""
    import torch

    if work.course != verdicts.course_version():
        raise ClusterError("a worker has another version of the course: install this one there")
    torch.set_num_threads(threads)
    for name in NOT_FOR_BENCHES:
        os.environ.pop(name, None)


def _report(text: str) -> Report:
    return Report.from_json(json.loads(text))


def _report_and_machine(text: str) -> tuple[Report, str]:
    data = json.loads(text)
    return Report.from_json(data["report"]), data["machine"]


def _attempt(function: Callable):
    """What a function gives, or the exception it ended with."""
    try:
        return function()
    except Exception as error:
        return error


def _as_done(futures):
    from distributed import as_completed

    return as_completed(list(futures), raise_errors=False)


def _outcome_of(future, read: Callable):
    """What came of a piece of work: its result, or why there is none. Raises ClusterError when the cluster is gone."""
    from distributed import KilledWorker

    if future.status in ("cancelled", "lost"):
        raise ClusterError(
            "the Dask scheduler is gone; what was judged is kept, and the same command goes on from there"
        )
    result = _attempt(lambda: read(future.result()))
    future.release()
    if isinstance(result, KilledWorker):
        times = result.allowed_failures + 1
        return ClusterError(f"the process that judged it was killed {times} times, most likely for memory")
    return result


def _tokens(workers: Mapping[str, dict]) -> dict[str, int]:
    """Workers that declare they may measure -> how many submissions at once."""
    declared = {address: int(worker.get("resources", {}).get(TOKEN, 0)) for address, worker in workers.items()}
    return {address: count for address, count in declared.items() if count}


def _places_to_time(workers: Mapping[str, dict]) -> list[dict]:
    """For each submission that may be measured at once, where: a token each, or else a machine each."""
    if tokens := _tokens(workers):
        return [{"resources": {TOKEN: 1}}] * sum(tokens.values())
    return [{"workers": [host], "allow_other_workers": True} for host in sorted(_slots_by_host(workers))]


def _slots_by_host(workers: Mapping[str, dict]) -> Counter[str]:
    """Machine -> how many submissions its workers judge at once."""
    slots: Counter[str] = Counter()
    for worker in workers.values():
        slots[worker["host"]] += worker["nthreads"]
    return slots


@contextlib.contextmanager
def _silent(name: str) -> Iterator[None]:
    """Nothing below this logger is told: what matters comes back as a result."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Below:
    """The processes below this one that were not there at first."""

    def __init__(self) -> None:
        self._before = self._now()
        self._seen: set[psutil.Process] = set()

    @staticmethod
    def _now() -> set[psutil.Process]:
        return set(psutil.Process().children(recursive=True))

    def take_note(self) -> list[psutil.Process]:
        """Those that run, also when their parent has ended since they were last asked for."""
        self._seen |= self._now() - self._before
        return [process for process in self._seen if process.is_running()]


@contextlib.contextmanager
def _ended_at_last() -> Iterator[_Below]:
    """Whatever happens inside, every process that was started there is gone afterwards."""
    tracker = resource_tracker._resource_tracker  # multiprocessing starts one, and leaves it
    tracked = tracker._fd is not None
    below = _Below()
    try:
        yield below
    finally:
        if not tracked:
            tracker._stop()
        kill_all(below.take_note)


def _folder_of_workers() -> Path:
    """Where Dask's workers of this process put their files; what killed gradings left behind is removed."""
    cache = lab.cache.writable_cache_dir()
    for left in cache.glob("workers-*"):
        if not psutil.pid_exists(int(left.name.removeprefix("workers-"))):
            shutil.rmtree(left, ignore_errors=True)
    return cache / f"workers-{os.getpid()}"
