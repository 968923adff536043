"""The settings that ELSEWHERE.md shows for a JupyterHub, on a hub of one machine: a grader, and a student."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import Error as PlaywrightError

from autograder import lab
from autograder.tests import browser
from autograder.tests.classes import REPOSITORY, SMALL, make_course, nbgrader, small_source
from autograder.tests.processes import still_running

pytestmark = pytest.mark.browser

PAGE = (REPOSITORY / "autograder/classroom/ELSEWHERE.md").read_text()
BLOCKS = {name: body for name, body in re.findall(r"^```(?:python|json)\n(?:#|//) (\S+)\n(.*?)^```", PAGE, re.M | re.S)}
chromium = browser.chromium
PASSWORD = "correct horse"
START_SECONDS = 60


def free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


# What a test cannot have: accounts of the machine's, and the usual ports. Its proxy is the one written in Python.
FOR_A_TEST = """
load_subconfig("shown.py")
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = {password!r}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = {homes!r} + "/{{username}}"
c.Spawner.args = ["--allow-root"]
c.Spawner.start_timeout = 120
c.JupyterHub.bind_url = "http://127.0.0.1:{hub}"
c.JupyterHub.hub_port = {inner}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """(the hub's address, the folder with everybody's homes)"""
    base = tmp_path_factory.mktemp("hub")
    course = make_course(base / "course", SMALL, small_source())
    exchange = f"\nc.Exchange.root = {str(base / 'exchange')!r}\nc.Exchange.cache = {str(base / 'cache')!r}\n"
    (base / "exchange").mkdir()
    (base / "exchange").chmod(0o777)
    with open(course / "nbgrader_config.py", "a") as config:
        config.write(exchange)
    students = base / "students"
    (students / "jupyter_server_config.d").mkdir(parents=True)
    (students / "nbgrader_config.py").write_text(BLOCKS["nbgrader_config.py"] + exchange)
    (students / "jupyter_server_config.d/course.json").write_text(BLOCKS["jupyter_server_config.d/course.json"])
    nbgrader(course, f"generate_assignment {SMALL}")
    nbgrader(course, f"release_assignment {SMALL}")
    outer, inner, api = free_ports(3)
    (base / "shown.py").write_text(BLOCKS["jupyterhub_config.py"])
    (base / "for_a_test.py").write_text(
        FOR_A_TEST.format(password=PASSWORD, homes=str(base / "homes"), hub=outer, inner=inner, api=api)
    )
    environment = {
        "COURSE": str(course),
        "STUDENTS": str(students),
        "AUTOGRADER_CACHE": str(lab.cache_dir()),
        "PYTHONPATH": str(REPOSITORY),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with open(base / "hub.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterhub", "-f", "for_a_test.py"],
            cwd=base,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{outer}"
        wait_for(f"{url}/hub/api", process, base / "hub.log")
        yield url, base
    finally:
        below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)
        process.kill()
        process.wait()
        still_running(below)


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=2).close()
            return
        time.sleep(0.3)
    raise AssertionError(log.read_text()[-4000:])


def logged_in(chromium: Browser, hub: tuple[str, Path], name: str) -> Page:
    """A page of somebody's, whose own server is running."""
    url, base = hub
    page = chromium.new_context(viewport={"width": browser.WIDTH, "height": browser.HEIGHT}).new_page()
    page.set_default_timeout(browser.PATIENCE)
    page.goto(f"{url}/hub/login")
    page.locator("#username_input").fill(name)
    page.locator("#password_input").fill(PASSWORD)
    page.locator("#login_submit").click()
    until = time.monotonic() + 3 * START_SECONDS
    while time.monotonic() < until:  # the page that waits for the server goes on by itself, but not through every proxy
        page.goto(f"{url}/user/{name}/lab")
        with suppress(PlaywrightError):
            page.wait_for_url(f"**/user/{name}/lab*", timeout=3000)
            page.locator("#jp-main-dock-panel").wait_for()
            return page
    raise AssertionError((base / "hub.log").read_text()[-4000:])


def test_a_grader_has_the_course_and_its_formgrader(chromium, hub):
    page = logged_in(chromium, hub, "grader")
    page.goto(f"{hub[0]}/user/grader/formgrader")
    expect(page.locator("tbody tr", has_text=SMALL)).to_contain_text("released")


def test_a_student_fetches_an_assignment_and_has_no_formgrader(chromium, hub):
    url, base = hub
    page = logged_in(chromium, hub, "ada")
    assert page.request.get(f"{url}/user/ada/formgrader").status == 404
    page.goto(f"{url}/user/ada/lab")
    page.get_by_role("menuitem", name="Nbgrader").click()
    page.get_by_role("menuitem", name="Assignment List").click()
    offered = page.locator("#released_assignments_list > .list_item", has_text=SMALL)
    offered.get_by_role("button", name="Fetch").click()
    expect(page.locator("#fetched_assignments_list > .list_item", has_text=SMALL)).to_be_visible()
    assert (base / "homes/ada/class" / SMALL / f"{SMALL}.ipynb").exists()
