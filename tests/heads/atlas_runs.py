"""Runs of an atlas that tests start, watch and kill: `python atlas_runs.py HOW MODEL OUT FILES`."""

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

from regard.errors import OptionError
from regard.heads import atlas_folder as atlas
from regard.models.model import model

SMALL = 700  # bytes of a unit


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def tell(done, _total):
    say(done, *(child.pid for child in multiprocessing.active_children()))


def alone(reader, out, files):
    manifest = atlas.start_atlas(out, reader, [files], unit=SMALL, longest=64)
    say("begun")
    atlas.run(out, manifest, atlas.units_of(manifest), atlas.in_this_process(reader, manifest), tell)


def with_workers(reader, out, files, pool, on_unit=tell):
    manifest = atlas.start_atlas(out, reader, [files], unit=SMALL, longest=64)
    with pool as workers:
        atlas.run(out, manifest, atlas.units_of(manifest), atlas.others(workers, manifest), on_unit)


def jobs(reader, out, files):
    with_workers(reader, out, files, atlas.processes(2))


def on_dask(reader, outs, files, end=None, processes=False):
    """Atlases in several folders at once, on a cluster of two workers; `end` is called with it after the first unit."""
    from distributed import LocalCluster

    options = {"host": "127.0.0.1", "dashboard_address": None, "protocol": "tcp://", "threads_per_worker": 1}
    with LocalCluster(n_workers=2, processes=processes, **options) as cluster:
        ended: list[object] = []

        def on_unit(done, _total):
            if done and end is not None and not ended:
                ended.append(end(cluster))

        def run(out):
            with_workers(reader, out, files, atlas.cluster(cluster.scheduler_address), on_unit)

        with ThreadPoolExecutor() as pool:
            list(pool.map(run, outs))
    say("done", *ended)


def dask(reader, out, files):
    on_dask(reader, [out, f"{out}/second"], files, processes=True)


def dask_with_a_killed_worker(reader, out, files):
    from distributed import Client

    def kill(cluster):
        with Client(cluster.scheduler_address) as client:
            victim, *others = client.run(os.getpid).values()
        os.kill(victim, signal.SIGKILL)
        return 1 + len(others)

    on_dask(reader, [out], files, kill, processes=True)


def dask_with_a_lost_scheduler(reader, out, files):
    try:
        on_dask(reader, [out], files, lambda cluster: cluster.close())
    except OptionError as problem:
        say(problem)


def claims(reader, _out, files):
    """Begin an atlas in each folder that standard input names."""
    say("ready")
    for folder in sys.stdin:
        try:
            atlas.start_atlas(folder.strip(), reader, [files], longest=64)
            say("accepted")
        except OptionError as problem:
            say("refused" if "other files" in str(problem) else problem)


if __name__ == "__main__":
    globals()[sys.argv[1]](model(sys.argv[2]), *sys.argv[3:])
