"""Grading a class with many workers: everybody's marks, one measurement at a time, and nothing lost by a death."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from sqlalchemy import text

from autograder import lab
from autograder.classroom import cluster, verdicts
from autograder.classroom.grade import GradeError, grade, settings
from autograder.judge import Cell, Report, RungResult, TierError, Verdict
from autograder.judge.judging import UNMEASURED
from autograder.judge.process import BenchError
from autograder.tests import test_classroom
from autograder.tests.processes import still_running
from autograder.tests.test_classroom import SMALL, changed, gradebook_of, hand_in

small, course, released = test_classroom.small, test_classroom.course, test_classroom.released
lenient_judge = test_classroom.lenient_judge

TIER = "sandbox"
ANSWERS = Path(__file__).parent / "answers/00/median_and_iqr"
PATIENCE = 120  # seconds for anything that must happen


def answering(notebook: NotebookNode, answer: str, remark: str = "") -> NotebookNode:
    """A submission whose only answer is this code; the remark tells it from others with the same."""
    return changed(notebook, "median_and_iqr_solution", source=f"{answer}\n# {remark}")


def answer(name: str) -> str:
    return (ANSWERS / f"{name}.py").read_text()


DYING = "import os\n\n\ndef median_and_iqr(samples):\n    os._exit(0)"
EXPECTED = {"by_hand": 3.0, "mean": 2.0, "dying": 0.0}


def hand_in_all(root: Path, released: NotebookNode, students: int) -> dict[str, float]:
    """Submissions of three kinds in turn; the points each must get."""
    sources = {"by_hand": answer("by_hand"), "mean": answer("mean"), "dying": DYING}
    points = {}
    for number in range(students):
        kind = list(sources)[number % 3]
        student = f"s{number:02}-{kind}"
        hand_in(root, student, answering(released, sources[kind], student), SMALL)
        points[student] = EXPECTED[kind]
    return points


def points_of(summary) -> dict[str, float]:
    return {graded.student: graded.points for graded in summary.students}


def saved_points(root: Path) -> dict[str, float]:
    """What the gradebook holds, by student."""
    with gradebook_of(root) as gradebook:
        return {s.student_id: s.score for s in gradebook.assignment_submissions(SMALL)}


def below() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def workers_at_work() -> list[psutil.Process]:
    """Dask's workers of this process that have a bench."""
    found = []
    for worker in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "spawn_main" in " ".join(worker.cmdline()) and any("-I" in p.cmdline() for p in worker.children(True)):
                found.append(worker)
    return found


@pytest.fixture
def cache_of_its_own(tmp_path, monkeypatch) -> Path:
    """The course's cache folder, with locks and workers' folders of this test alone."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for path in lab.cache_dir().iterdir():
        if not path.name.endswith(".lock") and not path.name.startswith("workers"):
            (folder / path.name).symlink_to(path)
    monkeypatch.setenv("AUTOGRADER_CACHE", str(folder))
    return folder


@pytest.fixture
def dask_here(cache_of_its_own):
    """A Dask cluster whose two workers are threads of this process, so that tests can reach into them; its address."""
    import dask
    from distributed import LocalCluster

    with (
        dask.config.set({"temporary-directory": str(cache_of_its_own)}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=50,
        ) as made,
    ):
        yield made.scheduler_address


# marks and leftovers


def test_two_workers_give_the_marks_that_one_gives_and_leave_nothing_behind(course, released, cache_of_its_own):
    expected = hand_in_all(course, released, 3)
    hand_in(course, "twin", answering(released, answer("by_hand"), "s00-by_hand"), SMALL)
    hand_in(course, "nothing", None, SMALL)
    before = below()
    summary = grade(SMALL, root=course, tier=TIER, workers=2)
    assert points_of(summary) == expected | {"twin": 3.0, "nothing": 0.0}
    assert (summary.judged, summary.unchanged, summary.status) == (4, 0, 1)
    assert len(list((course / verdicts.FOLDER / SMALL).iterdir())) == 3, "the twins share a verdict"
    assert below() - before == set()
    assert [path.name for path in cache_of_its_own.iterdir() if path.name.startswith("workers")] == []
    again = grade(SMALL, root=course, tier=TIER, workers=1)
    assert again == summary
    assert (again.judged, again.unchanged) == (0, 4)
    shutil.rmtree(course / verdicts.FOLDER)
    assert grade(SMALL, root=course, tier=TIER, workers=1) == summary


@pytest.mark.faults
def test_a_worker_killed_half_way_costs_nobody_a_mark(course, released, cache_of_its_own):
    expected = hand_in_all(course, released, 3)
    killed = threading.Event()
    stop = threading.Event()

    def kill_one() -> None:
        while not stop.wait(0.01):
            for worker in workers_at_work():
                worker.kill()
                killed.set()
                return

    thread = threading.Thread(target=kill_one)
    thread.start()
    try:
        summary = grade(SMALL, root=course, tier=TIER, workers=2)
    finally:
        stop.set()
        thread.join()
    assert killed.is_set()
    assert points_of(summary) == saved_points(course) == expected
    assert {graded.outcome for graded in summary.students} == {"graded"}


@pytest.mark.faults
def test_a_submission_whose_worker_is_killed_every_time_fails_in_a_sentence(course, released, cache_of_its_own):
    work = verdicts.Shelf(course, SMALL, TIER).work([Cell(answer("by_hand"), number=1)])
    stop = threading.Event()

    def kill_all() -> None:
        while not stop.wait(0.01):
            for worker in workers_at_work():
                with contextlib.suppress(psutil.Error):
                    worker.kill()

    thread = threading.Thread(target=kill_all)
    thread.start()
    try:
        with cluster.own(2, lambda text, fraction: None) as place:
            ((key, outcome),) = place.judging({"whose": work})
            stop.set()
            assert key == "whose"
            assert str(outcome) == "the process that judged it was killed 4 times, most likely for memory"
            ((_, report),) = place.judging({"next": work})
            assert report.points == EXPECTED["by_hand"]
    finally:
        stop.set()
        thread.join()


@pytest.mark.cheats
def test_nobody_else_on_this_machine_can_talk_to_the_workers(cache_of_its_own):
    """Whoever can send work to a Dask scheduler runs code as the teacher."""
    from distributed import Client
    from distributed.security import Security

    with cluster.own(2, lambda text, fraction: None) as place:
        port = place._client.scheduler.address.rpartition(":")[2]
        for strangers, security in (("tcp", None), ("tls", Security.temporary())):
            with pytest.raises(OSError):
                Client(f"{strangers}://127.0.0.1:{port}", security=security, timeout=2)
        listening = [
            connection.laddr.ip
            for process in (psutil.Process(), *below())
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert set(listening) == {"127.0.0.1"}
    assert below() == set()


# ended from outside


class Command:
    """`autograder grade` as a teacher starts it, in a process group of its own as a terminal gives it."""

    def __init__(self, root: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "autograder.cli", "grade", SMALL, "--tier", TIER, "--workers", "2", *words],
            cwd=root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_a_student(self) -> set[psutil.Process]:
        """Returns when the first marks are saved, with everything that runs then."""
        assert "a line for each student" in self.process.stderr.readline()
        assert "of 5" in self.process.stderr.readline()
        process = psutil.Process(self.process.pid)
        return {process, *process.children(recursive=True)}

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out, err


@pytest.mark.faults
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_grading_that_is_ended_is_taken_up_again(how, course, released, cache_of_its_own):
    expected = hand_in_all(course, released, 4)
    command = Command(course)
    running = command.wait_for_a_student()
    if how == signal.SIGINT:
        os.killpg(command.process.pid, how)  # what Ctrl-C does
    else:
        command.process.kill()
    status, _, said = command.end()
    assert still_running(list(running), 20) == []
    if how == signal.SIGINT:
        assert status == 2
        assert said.splitlines()[-1] == (
            "autograder: interrupted; what was judged is kept, and the same command goes on from there"
        )
        assert "Traceback" not in said
    summary = grade(SMALL, root=course, tier=TIER)
    assert points_of(summary) == saved_points(course) == expected
    assert summary.unchanged >= 1


@pytest.mark.faults
def test_what_a_killed_grading_left_in_the_cache_is_removed_by_the_next(cache_of_its_own):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, mine = cache_of_its_own / f"workers-{gone.pid}", cache_of_its_own / f"workers-{os.getpid()}"
    left.mkdir()
    mine.mkdir()
    assert cluster._folder_of_workers() == mine
    assert mine.exists() and not left.exists()


@pytest.mark.faults
def test_two_gradings_at_once_both_end_well(course, released, cache_of_its_own):
    expected = hand_in_all(course, released, 2)
    commands = [Command(course, "--json"), Command(course, "--json")]
    for status, out, err in [command.end() for command in commands]:
        assert status == 0, err
        assert {row["student"]: row["points"] for row in json.loads(out)["students"]} == expected
    assert saved_points(course) == expected


@pytest.mark.faults
def test_a_busy_gradebook_is_waited_for(course):
    config = settings(SMALL, course, tier=TIER, measure=None)
    with Gradebook(config.CourseDirectory.db_url) as gradebook, gradebook.engine.connect() as connection:
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 60_000
    assert settings(SMALL, course, tier=TIER, measure=None).CourseDirectory.db_url.count("timeout") == 1


# measuring


@pytest.fixture
def measured_judge(monkeypatch):
    """A judge whose verdict on median_and_iqr awaits its speed; counts what is done to whom, and how much at once."""

    log = SimpleNamespace(judged=Counter(), timed=Counter(), at_once=0, most_at_once=0, interrupt_after=100)
    lock = threading.Lock()

    def judge_notebook(cells, chapter, *, tier, **_):
        log.judged[whose(cells)] += 1
        rungs = [RungResult("right", True, 2.0), RungResult("speed", False, 1.0, UNMEASURED)]
        return Report(chapter.slug, tier, [Verdict("median_and_iqr", 2.0, 3.0, "partial", rungs)])

    def time_notebook(cells, chapter, report, **_):
        if sum(log.timed.values()) == log.interrupt_after:
            raise KeyboardInterrupt
        with lock:
            log.at_once += 1
            log.most_at_once = max(log.most_at_once, log.at_once)
        log.timed[whose(cells)] += 1
        (verdict,) = report.verdicts
        verdict.rungs[-1] = RungResult("speed", True, 1.0)
        verdict.points = 3.0
        with lock:
            log.at_once -= 1
        return report

    def whose(cells) -> str:
        return next(line[2:] for cell in cells for line in cell.source.splitlines() if line.startswith("# s"))

    monkeypatch.setattr(verdicts, "judge_notebook", judge_notebook)
    monkeypatch.setattr(verdicts, "time_notebook", time_notebook)
    return log


def hand_in_right(root: Path, released: NotebookNode, students: list[str]) -> None:
    for student in students:
        hand_in(root, student, answering(released, "", student), SMALL)


def test_speeds_are_measured_after_everything_else_and_kept_apart(course, released, measured_judge):
    students = ["s1", "s2", "s3"]
    hand_in_right(course, released, students)
    measured_judge.interrupt_after = 1
    with pytest.raises(KeyboardInterrupt):
        grade(SMALL, root=course, tier=TIER)
    assert sum(measured_judge.judged.values()) == 3
    assert saved_points(course) == {"s1": 3.0}
    measured_judge.interrupt_after = 100
    summary = grade(SMALL, root=course, tier=TIER)
    assert points_of(summary) == dict.fromkeys(students, 3.0)
    assert measured_judge.judged == measured_judge.timed == Counter(students), "nothing was done twice"
    assert (summary.judged, summary.unchanged) == (2, 1)
    again = grade(SMALL, root=course, tier=TIER, again=True)
    assert again == summary
    assert measured_judge.judged == measured_judge.timed == Counter(students * 2)


def test_without_measuring_the_marks_are_the_counted_ones(course, released, measured_judge):
    hand_in_right(course, released, ["s1"])
    assert points_of(grade(SMALL, root=course, tier=TIER, measure=False)) == {"s1": 2.0}
    assert points_of(grade(SMALL, root=course, tier=TIER)) == {"s1": 3.0}
    assert measured_judge.judged == Counter(["s1"])


def test_a_cluster_measures_one_at_a_time_and_waits_while_marks_are_saved(course, released, measured_judge, dask_here):
    students = [f"s{number}" for number in range(5)]
    hand_in_right(course, released, students)
    running_while_saved = []
    summary = grade(
        SMALL,
        root=course,
        tier=TIER,
        scheduler=dask_here,
        finished=lambda graded: running_while_saved.append(measured_judge.at_once),
    )
    assert points_of(summary) == dict.fromkeys(students, 3.0)
    assert measured_judge.judged == measured_judge.timed == Counter(students)
    assert measured_judge.most_at_once == 1
    assert running_while_saved == [0] * 5


def test_a_speed_measured_on_another_kind_of_machine_counts_where_that_machine_was_asked(
    course, released, measured_judge, dask_here, monkeypatch
):
    monkeypatch.setattr(cluster, "_introduction", lambda: (verdicts.course_version(), "a GPU far away"))
    monkeypatch.setattr(cluster, "_timed", far_away)
    hand_in_right(course, released, ["s1"])
    for _ in range(2):
        summary = grade(SMALL, root=course, tier=TIER, scheduler=dask_here)
        assert points_of(summary) == saved_points(course) == {"s1": 3.0}
    assert (summary.unchanged, measured_judge.timed["s1"]) == (1, 1)
    assert points_of(grade(SMALL, root=course, tier=TIER)) == {"s1": 3.0}
    assert (measured_judge.judged["s1"], measured_judge.timed["s1"]) == (1, 2), "this machine measures for itself"


def far_away(work, report: str) -> str:
    made = verdicts.timed(work, Report.from_json(json.loads(report)))
    return json.dumps({"report": made.to_json(), "machine": "a GPU far away"})


def test_nobody_judges_or_saves_while_somebody_measures(course, measured_judge, monkeypatch, cache_of_its_own):
    """Two gradings on one machine: the second one's judging waits until the first one's measurement is over."""
    work = verdicts.Shelf(course, SMALL, TIER).work([Cell("# s1", number=1)])
    measuring, waiting, over = threading.Event(), threading.Event(), threading.Event()
    fake = verdicts.time_notebook

    def long(*args, **settings):
        measuring.set()
        assert over.wait(PATIENCE)
        return fake(*args, **settings)

    monkeypatch.setattr(verdicts, "time_notebook", long)
    report = verdicts.judged(work)
    measured_judge.judged.clear()
    first = threading.Thread(target=lambda: verdicts.timed(work, report))
    second = threading.Thread(target=lambda: verdicts.judged(work, progress=lambda text, _: waiting.set()))
    first.start()
    assert measuring.wait(PATIENCE)
    second.start()
    assert waiting.wait(PATIENCE)
    assert not measured_judge.judged
    over.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert measured_judge.judged == Counter(["s1"])


def test_a_machine_or_a_declared_token_measures_one_at_a_time():
    def worker(host: str, **resources: float) -> dict:
        return {"host": host, "nthreads": 2, "resources": resources}

    plain = {"tcp://a:1": worker("a"), "tcp://a:2": worker("a"), "tcp://b:1": worker("b")}
    assert [place["workers"] for place in cluster._places_to_time(plain)] == [["a"], ["b"]]
    assert cluster._slots_by_host(plain) == {"a": 4, "b": 2}
    declared = plain | {"tcp://b:2": worker("b", timing=1), "tcp://b:3": worker("b", timing=1)}
    assert cluster._places_to_time(declared) == [{"resources": {"timing": 1}}] * 2


# machines that fail


@pytest.mark.faults
def test_a_machine_that_cannot_judge_is_nobodys_zero(course, released, monkeypatch):
    for student in ("s1", "s2", "s3", "s4"):
        hand_in(course, student, answering(released, "", student), SMALL)

    def no_bench(cells, chapter, **_):
        if broken & {line for cell in cells for line in cell.source.splitlines()}:
            raise BenchError("learners' code cannot be run here")
        return Report(chapter.slug, TIER, [Verdict("median_and_iqr", 3.0, 3.0, "full")])

    monkeypatch.setattr(verdicts, "judge_notebook", no_bench)
    broken = {"# s1", "# s2", "# s3", "# s4"}
    with pytest.raises(GradeError, match="Grading stopped, and nobody lost a mark: learners' code cannot be run here"):
        grade(SMALL, root=course, tier=TIER)
    assert saved_points(course) == {}
    broken = {"# s2"}
    summary = grade(SMALL, root=course, tier=TIER)
    assert {g.student: g.outcome for g in summary.students} == {
        "s1": "graded",
        "s2": "failed",
        "s3": "graded",
        "s4": "graded",
    }
    assert saved_points(course) == dict.fromkeys(("s1", "s3", "s4"), 3.0)
    assert summary.status == 2

    def no_tier(*_, **__):
        raise TierError("the sandbox is gone")

    monkeypatch.setattr(verdicts, "judge_notebook", no_tier)
    with pytest.raises(GradeError, match="the sandbox is gone"):
        grade(SMALL, root=course, tier=TIER, student="s2")


@pytest.mark.faults
def test_a_cluster_that_cannot_be_used_is_one_sentence(course, released, dask_here, monkeypatch):
    hand_in(course, "ada", released, SMALL)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(cluster.ClusterError, match=r"there is no Dask scheduler at tcp://127\.0\.0\.1:9"):
        grade(SMALL, root=course, tier=TIER, scheduler="tcp://127.0.0.1:9")
    monkeypatch.setattr(cluster, "_introduction", lambda: ("an older course", "a machine"))
    with pytest.raises(cluster.ClusterError, match="has another version of the course: install this one there"):
        grade(SMALL, root=course, tier=TIER, scheduler=dask_here)
    assert saved_points(course) == {}


def test_a_worker_judges_by_no_other_version_of_the_course(course, lenient_judge, dask_here):
    work = verdicts.Work((), SMALL, TIER, None, "an older course")
    with cluster.existing(dask_here) as place:
        ((_, outcome),) = place.judging({"whose": work})
    assert isinstance(outcome, cluster.ClusterError) and "another version of the course" in str(outcome)
    assert lenient_judge == []


@pytest.mark.faults
def test_a_verdict_that_was_cut_short_on_disk_is_made_again(course, released, lenient_judge):
    hand_in(course, "ada", answering(released, "# RIGHT median_and_iqr"), SMALL)
    first = grade(SMALL, root=course, tier=TIER)
    (kept,) = (course / verdicts.FOLDER / SMALL).glob("*.json")
    kept.write_text(kept.read_text()[:40])
    assert grade(SMALL, root=course, tier=TIER) == first
    assert len(lenient_judge) == 2


def test_notebooks_with_the_same_code_are_judged_once(course, released, lenient_judge):
    for student in ("ada", "bob", "eve"):
        hand_in(course, student, nbformat.writes(released), SMALL)
    assert len(grade(SMALL, root=course, tier=TIER).students) == 3
    assert len(lenient_judge) == 1
