"""Writes the site into a folder."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from regard import atomic_file, errors, examples
from regard.heads import profile
from regard.models.model import Model
from regard.site.course import links, without_live
from regard.site.pages import HeaderLink, document, markdown_page, relative, source_page
from regard.viewer import heads_page, page, web_model

SENTENCE = "kids"  # the example on the front door
SOURCES = (".py",)
PICTURES = (".svg", ".png")
CONTENTS = "read.html"  # docs/index.md; index.html is the front door


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
    header = [HeaderLink("Try it", "index.html"), HeaderLink("Read", CONTENTS), HeaderLink("Heads", "heads.html")]
    header += [HeaderLink("Learning", "films.html")] if films else []
    navigation = {link.label: link.page for link in header}
    tell("The front door")
    reading = model.read(str(examples.named(SENTENCE).content))
    web_model.write(model, out / "model")
    page.save(reading, out / "index.html", links=navigation, model_at="model/model.json")
    tell("What heads do")
    maps = heads_page.maps(model)
    data = profile.profile_texts(model, [reading.text for reading in maps]).data()
    heads_page.save(out / "heads.html", [data], [maps], links=navigation)
    if films:
        _write_films(out, films, header, navigation, tell)
    tell("Lessons and documentation")
    _write_documents(out, header)
    return out / "index.html"


def _write_films(
    out: Path, folders: Sequence[str | os.PathLike[str]], header: Sequence[HeaderLink], navigation: dict[str, str],
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    from regard.training.record import Record  # with PyTorch, which the rest does not need
    from regard.viewer import training_page

    lines = ["# Watch heads learn", "", "Each film shows a small model while it is trained: drag the slider.", ""]
    for folder in folders:
        name = Path(folder).name
        tell(f"Film of {name}")
        record = Record.load(folder)
        below = {label: relative(f"films/{name}.html", path) for label, path in navigation.items()}
        (out / "films").mkdir(exist_ok=True)
        training_page.save(record, out / "films" / f"{name}.html", links=below)
        lines.append(f"- [{name}](films/{name}.html): {training_page.ABOUT.get(record.task, '')}")
    found = markdown_page("\n".join(lines), lambda path: path)
    atomic_file.write(out / "films.html", document(found, "films.html", header, label="Learning"))


def _write_documents(out: Path, header: Sequence[HeaderLink]) -> None:
    """docs/index.md and everything that it leads to, as pages; pictures are copied."""
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
            leads_to = _resolved(source, written)
            return relative(target, _target(leads_to)) if _is_known(documents, leads_to) else None

        text, live = without_live(text)
        found = source_page(source.name, text) if source.suffix in SOURCES else markdown_page(text, address)
        for written in found.targets:
            leads_to = _resolved(source, written)
            if leads_to not in seen and _is_known(documents, leads_to):
                seen.add(leads_to)
                waiting.append(leads_to)
        (out / target).parent.mkdir(parents=True, exist_ok=True)
        around = links(source, target, live, documents)
        found = replace(found, body=around + found.body + around)
        atomic_file.write(out / target, document(found, target, header, label="Read"))


def _documents() -> Path:
    """The folder docs, which an installed Regard has in its package and a checkout beside src."""
    package = Path(__file__).parents[1]
    for folder in (package / "docs", package.parents[1] / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise errors.Unsupported("The documentation is not part of this installation.\nRun `make site` in a checkout.")


def _resolved(source: PurePosixPath, written: str) -> PurePosixPath:
    return PurePosixPath(os.path.normpath(source.parent / written))


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
