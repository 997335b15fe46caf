"""Writes the site into a folder."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from regard import atomic_file, errors, examples
from regard.heads import profile
from regard.models.model import Model
from regard.site.course import figure_blocks, links, placed, with_figures, without_live
from regard.site.pages import document, markdown_page, relative, source_page
from regard.viewer import heads_page, page, web_model

SENTENCE = "kids"  # the example on the front door
SOURCES = (".py",)
PICTURES = (".svg", ".png")
RECORDED = "relations"  # the film that every site has: docs/record_film.py
CONTENTS = "read.html"  # docs/index.md; index.html is the front door
MANIFEST = "regard-site.json"  # the files of the site, so that another one in the same folder removes what is gone


def write(
    out: str | os.PathLike[str],
    model: Model,
    *,
    films: Sequence[str | os.PathLike[str]] = (),
    tell: Callable[[str], None] = lambda _line: None,
) -> Path:
    """Write the site into a folder; the path of its first page.

    model   the one on the front door, which reads other texts in the browser
    films   folders of training runs (`regard train`), each a page
    tell    called with a line for each part
    """
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    before = _earlier_files(out)
    header = {page.FRONT: "index.html", "Read": CONTENTS, "Heads": "heads.html", "Learning": "films.html"}
    tell("The front door")
    reading = model.read(str(examples.named(SENTENCE).content))
    web_model.write(model, out / "model")
    model_files = {f"model/{path.name}" for path in (out / "model").iterdir()}
    page.save(reading, out / "index.html", links=header, model_at="model/model.json")
    tell("What heads do")
    maps = heads_page.maps(model)
    data = profile.profile_texts(model, [reading.text for reading in maps]).data()
    heads_page.save(out / "heads.html", [data], [maps], links=header)
    film_files = _write_films(out, films, header, tell)
    tell("Lessons and documentation")
    written = {"index.html", "heads.html", *model_files, *film_files, *_write_documents(out, header, model)}
    _remove(out, before - written)
    atomic_file.write(out / MANIFEST, json.dumps(sorted(written), indent=1) + "\n")
    return out / "index.html"


def _earlier_files(out: Path) -> set[str]:
    """The files that an earlier site wrote here, by its manifest; paths that lead out of the folder do not count."""
    try:
        names = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return set()
    paths = {name: PurePosixPath(name) for name in names if isinstance(name, str)} if isinstance(names, list) else {}
    return {name for name, path in paths.items() if path.parts and not path.is_absolute() and ".." not in path.parts}


def _remove(out: Path, names: set[str]) -> None:
    """Files of an earlier site that are gone, and folders that are empty then; nothing outside the site's folder."""
    inside = out.resolve()
    for path in (out / name for name in sorted(names)):
        if inside in path.parent.resolve().parents or inside == path.parent.resolve():
            path.unlink(missing_ok=True) if path.is_symlink() or path.is_file() else None
        folder = path.parent
        while folder != out and folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent


def _write_films(
    out: Path, folders: Sequence[str | os.PathLike[str]], header: Mapping[str, str], tell: Callable[[str], None]
) -> set[str]:
    """A page per film and their list; the files written. The recorded film comes first, unless a run has its name."""
    from regard.viewer import training_page

    lines = ["# Watch heads learn", "", "Each film shows a small model while it is trained: drag the slider.", ""]
    pages: dict[str, tuple[str, Iterator[str]]] = {}
    below = {label: relative("films/x.html", path) for label, path in header.items()}
    (out / "films").mkdir(exist_ok=True)
    if not any(Path(folder).name == RECORDED for folder in folders):
        packed = gzip.decompress((Path(__file__).parent / f"{RECORDED}.film.gz").read_bytes())
        film = training_page.film_page(f"Training on {RECORDED}", packed, below)
        pages[RECORDED] = training_page.ABOUT[RECORDED], film
    for folder in folders:
        from regard.training.record import Record  # with PyTorch, which the rest does not need

        name = Path(folder).name
        record = Record.load(folder)
        pages[name] = training_page.ABOUT.get(record.task, ""), training_page.pieces(record, below)
    for name, (about, pieces) in pages.items():
        tell(f"Film of {name}")
        atomic_file.write(out / "films" / f"{name}.html", pieces)
        lines.append(f"- [{name}](films/{name}.html): {about}")
    page = markdown_page("\n".join(lines), lambda path: path)
    atomic_file.write(out / "films.html", document(page, "films.html", header, label="Learning"))
    return {"films.html", *(f"films/{name}.html" for name in pages)}


def _write_documents(out: Path, header: Mapping[str, str], model: Model) -> set[str]:
    """docs/index.md and everything that it leads to, as pages; pictures are copied. The files written."""
    documents = _documents()
    start = PurePosixPath("docs/index.md")
    waiting, seen = deque([start]), {start}
    while waiting:
        source = waiting.popleft()
        target = _target(source)
        path = documents.parent / source
        if source.suffix in PICTURES:
            (out / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, out / target)
            continue
        text = path.read_text(encoding="utf-8")

        def address(written: str, source: PurePosixPath = source, target: str = target) -> str | None:
            leads_to = PurePosixPath(os.path.normpath(source.parent / written))
            return relative(target, _target(leads_to)) if _is_known(documents, leads_to) else None

        text, live = without_live(text)
        text, figures = with_figures(text) if source.suffix == ".md" else (text, [])
        contents = source_page(source.name, text) if source.suffix in SOURCES else markdown_page(text, address)
        for written in contents.targets:
            leads_to = PurePosixPath(os.path.normpath(source.parent / written))
            if leads_to not in seen and _is_known(documents, leads_to):
                seen.add(leads_to)
                waiting.append(leads_to)
        (out / target).parent.mkdir(parents=True, exist_ok=True)
        before, after = (links(source, target, live, documents, label) for label in ("Lessons", "Lessons, below"))
        contents = replace(contents, body=before + placed(contents.body, figures) + after)
        blocks = figure_blocks(figures, model) if figures else ()
        atomic_file.write(out / target, document(contents, target, header, label="Read", figures=blocks))
    return {_target(source) for source in seen}


def _documents() -> Path:
    """The folder docs, which an installed Regard has in its package and a checkout beside src."""
    package = Path(__file__).parents[1]
    for folder in (package / "docs", package.parents[1] / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise errors.Unsupported("The documentation is not part of this installation.\nRun `make site` in a checkout.")


def _is_known(documents: Path, source: PurePosixPath) -> bool:
    """Whether a link leads to a file that becomes a page or is copied."""
    path = documents.parent / source
    return not str(source).startswith("..") and source.suffix in (".md", *SOURCES, *PICTURES) and path.is_file()


def _target(source: PurePosixPath) -> str:
    """Where a file is in the site: documents without their folder, those of other folders with it."""
    if source == PurePosixPath("docs/index.md"):
        return CONTENTS
    below = source.relative_to("docs") if source.parts[0] == "docs" else source
    return str(below if source.suffix in PICTURES else below.with_suffix(".html"))
