"""Records the film that every site has: python docs/record_film.py. It takes a minute."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

from regard import training
from regard.viewer import frames, training_page

OUT = Path(__file__).parents[1] / "src/regard/site/relations.film.gz"
LAST = 320  # the last step that is kept: what follows changes little


def main() -> None:
    task = training.task("relations")
    preset = training.preset(task)
    record = training.train(preset.network(task, seed=0), task, preset.recipe).record
    kept = [snapshot for snapshot in record.snapshots if snapshot.step <= LAST]
    film = training_page.film(replace(record, snapshots=kept), "Training on relations")
    OUT.write_bytes(gzip.compress(frames.pack(*film), mtime=0))


if __name__ == "__main__":
    main()
