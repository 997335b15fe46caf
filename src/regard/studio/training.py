"""Training from the studio, in a process of its own: PyTorch's threads and memory end with it.

`run` starts `python -m regard.studio.training TASK FOLDER [STEPS]` and reads its progress, one JSON object per line;
the folder holds the film in the end, as `regard.viewer.training_page` packs it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.errors import require
from regard.studio.auth import Refused

TASKS = ("relations", "lookup", "induction")  # learned within a minute or two on two cores
FILM = "film.bin"


def check() -> None:
    """Raises an error that says what to install where PyTorch is missing."""
    require("Training", "torch", "safetensors")


def run(task: str, tell: Callable[[str, float], None], steps: int | None = None) -> bytes:
    """Train a small model; the film of its training.

    tell    called with a sentence and the part that is done; what it raises ends the training
    steps   instead of those of the task's recipe
    """
    with TemporaryDirectory(prefix="regard-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "regard.studio.training", task, folder]
        command += [] if steps is None else [str(steps)]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            for line in process.stdout:
                news = json.loads(line)
                tell(news["message"], news["progress"])
            if process.wait() != 0:
                raise Refused(500, f"The training ended with status {process.returncode}: see the studio's terminal.")
            return Path(folder, FILM).read_bytes()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def main(task: str, folder: str, steps: str | None = None) -> None:
    """Train in this process, and print the progress."""
    from regard import training
    from regard.viewer import frames, training_page

    os.nice(5)  # the studio's answers come first
    chosen = training.task(task)
    preset = training.preset(chosen)
    model = preset.network(chosen, seed=0)
    recipe = preset.recipe if steps is None else replace(preset.recipe, steps=int(steps))
    training.limit_threads(model, chosen, recipe)
    measured = ""

    def on_step(done: training.Progress) -> None:
        nonlocal measured
        if done.snapshot is not None:
            measured = f", {done.snapshot.accuracy:.0%} of the answers are right"
        if done.snapshot is not None or done.step % 20 == 0:
            message = f"Step {done.step:,} of {done.steps:,}: loss {done.loss:.2f}{measured}."
            sys.stdout.write(json.dumps({"message": message, "progress": done.step / done.steps}) + "\n")
            sys.stdout.flush()

    record = training.train(model, chosen, recipe, on_step=on_step).record
    film = frames.pack(*training_page.film(record, f"Training on {record.task}"))
    Path(folder, FILM).write_bytes(film)


if __name__ == "__main__":
    main(*sys.argv[1:])
