"""A run that is killed with SIGKILL again and again, and goes on each time: what scripts/kills, scripts/kill-saves and
scripts/drive do, each at its own moments and with its own idea of what may not be lost."""
import json
import pathlib
import signal
import subprocess
import tempfile
import typing


class Failed(Exception):
    pass


def after(chance, longest):
    """Moments at random, up to `longest` seconds from the start."""
    def wait(child):
        try:
            child.wait(chance.uniform(0, longest))
        except subprocess.TimeoutExpired:
            pass
    return wait


def run_until(command, moment):
    """What it printed if it came to its end, None if it was killed; `moment` waits for when that is to be, or for the end,
    None for the end alone. Raises Failed if it ends otherwise than with exit code 0."""
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=printed, stderr=errors)
        try:
            (moment or subprocess.Popen.wait)(child)
            is_killed = child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
        if is_killed:
            return None
        for file in (printed, errors):
            file.seek(0)
        if child.returncode != 0:
            raise Failed(f"a run ended with {child.returncode}: {errors.read().strip()[-500:]}")
        return printed.read()


def kill_often(kills: int, command: typing.Callable[[bool], list], moment, after_kill: typing.Callable[[], bool | None],
               finished: typing.Callable[[str], None]) -> int:
    """Kills so often, but for kills of which after_kill() says False; command(True) is of the run that nobody kills any more. finished(what it printed) is called whenever
    a run came to its end, holds it against what it should be and makes place for the next. Returns how many did."""
    killed = runs = 0
    while True:
        is_last = killed >= kills
        printed = run_until(command(is_last), None if is_last else moment)
        if printed is None:
            killed += after_kill() is not False
            continue
        runs += 1
        finished(printed)
        if is_last:
            return runs


def newest_step(folder: pathlib.Path) -> int:
    """Of the whole checkpoints in it; 0: there is none."""
    steps = [0]
    for file in folder.glob("step-*/run.json"):
        if file.parent.name[5:].isdigit():
            try:
                steps.append(json.loads(file.read_text())["step"])
            except (OSError, ValueError, KeyError):
                pass
    return max(steps)


def different_states(one: pathlib.Path, other: pathlib.Path):
    """The first of a checkpoint's files of states that differs; None if all are the same."""
    return next((name for name in ("model.safetensors", "optimizer.safetensors")
                 if (one / name).read_bytes() != (other / name).read_bytes()), None)
