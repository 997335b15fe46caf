"""`regard models`: list, download and remove models.

The store is imported when a command runs, because it is slow to import and other commands do not need it.
"""

from __future__ import annotations

import typer

from regard.cli import terminal
from regard.cli.commands import group
from regard.errors import OptionError, RegardError, reason_of
from regard.tables import Column, Table


def get(name: str) -> None:
    """Download a model into the cache.

    name  A name from the list, or owner/name on the hub.

    Examples:
      regard models get minilm
      regard models get google-bert/bert-base-uncased
    """
    from regard.models import store

    there = store.kept(name)
    stored = there or store.get(name)
    state = "is already in the cache" if there else "is downloaded"
    terminal.show([f"{name} {state}: {stored.path} ({_size(stored.size)})"])


def remove(name: str) -> None:
    """Remove a model, or an incomplete download of it, from its cache.

    Models owner/name are in Hugging Face's cache: they are removed for transformers too.

    name  A model in the cache.

    Examples:
      regard models remove smollm2
    """
    from regard.models import store
    from regard.models.store import hub

    try:
        freed = store.remove(name)
    except OSError as problem:
        if isinstance(problem, RegardError):
            raise
        raise OptionError(f"The model {name!r} cannot be removed: {reason_of(problem)}.") from None
    if not freed:
        there = ", ".join(entry.name for entry in [*store.all_kept(), *hub.all_kept()]) or "none"
        raise OptionError(f"The model {name!r} is not in the cache.\nModels there: {there}.")
    terminal.show([f"Removed {name}: {_size(freed)} freed."])


def listing() -> Table:
    """The models of the catalogue, and those in Hugging Face's cache that Regard opens."""
    from regard.models import store
    from regard.models.store import hub

    kept = {entry.name for entry in store.all_kept()}
    rows = [
        (entry.name, entry.what, entry.licence, _size(entry.size), "yes" if entry.name in kept else "no")
        for entry in store.CATALOGUE.values()
    ]
    rows += [(entry.name, "from the hub", "see card", _size(entry.size), "yes") for entry in hub.all_kept()]
    columns = (Column("Name", "word"), *(Column(name) for name in ("Description", "Licence", "Size", "Here")))
    notes = (
        "`regard models get NAME` downloads one. Folders and GGUF files are used by their path.",
        f"The cache: {store.root()}; of models owner/name Hugging Face's: {hub.root()}",
    )
    return Table("Models", columns, tuple(rows), notes)


def _size(count: int) -> str:
    return f"{count / 1e6:,.0f} MB" if count >= 1e6 else f"{count / 1e3:,.0f} kB"


app = group(
    "List models; download and remove them.",
    """  regard models
  regard models get minilm
  regard models remove smollm2
  REGARD_CACHE=/data/regard regard models get smollm2""",
    (get, remove),
    invoke_without_command=True,
    no_args_is_help=False,
)


@app.callback()
def models(context: typer.Context) -> None:
    """List models; download and remove them."""
    if context.invoked_subcommand is None:
        terminal.show([listing()])
