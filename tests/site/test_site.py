"""The static site: every link leads somewhere, nothing is requested from elsewhere, every page has the header."""

import json
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import regard
from regard import site
from regard.site.pages import markdown_page

from ..patterns import search

pytest.importorskip("safetensors")
VIEWS = {path.name for path in (Path(regard.__file__).parent / "web" / "views").iterdir() if path.is_dir()}


class Markup(HTMLParser):
    """Addresses and ids of a page; those that a browser would request by itself are apart."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.requested: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values["id"]} if values.get("id") else set()
        if tag == "a":
            self.links.append(values["href"])
        elif tag != "script" or values.get("src"):
            self.requested += [values[name] for name in ("src", "href", "srcset", "data") if values.get(name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    assert site.write(out, regard.model("minilm")) == out / "index.html"
    return out


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[Path, Markup]:
    return {path: Markup(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}


def test_every_link_leads_to_a_page_and_a_heading_of_the_site(folder, pages):
    assert len(pages) > 25
    for path, markup in pages.items():
        for address in [*markup.links, *markup.requested]:
            parts = urlsplit(address)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file() and folder.resolve() in target.parents, f"{path.name} links to {address}"
            if target == folder.resolve() / "index.html" and parts.fragment:
                state = dict(pair.split("=") for pair in parts.fragment.split("&"))
                assert state.keys() <= {"view", "layer", "head", "heads", "query", "key", "text", "sinks"}, address
                assert state.get("view", "sentence") in VIEWS, address
            elif parts.fragment and target.suffix == ".html":
                assert parts.fragment in pages[folder / target.relative_to(folder.resolve())].ids, address


def test_nothing_is_requested_from_elsewhere(pages):
    for path, markup in pages.items():
        assert not [address for address in markup.requested if urlsplit(address).scheme], path
        text = path.read_text(encoding="utf-8")
        policy = search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1]
        assert policy.startswith("default-src 'none'") and "http" not in policy


def test_every_page_is_reached_from_the_front_door(folder, pages):
    reached, waiting = set(), [folder / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached.add(path)
        local = [urlsplit(address).path for address in pages[path].links if not urlsplit(address).scheme]
        targets = [
            folder / (path.parent / unquote(one)).resolve().relative_to(folder.resolve()) for one in local if one
        ]
        waiting += [target for target in targets if target.suffix == ".html"]
    assert reached == set(pages)


def test_no_markup_of_a_document_is_executed():
    page = markdown_page("# <script>alert(1)</script>\n\n[x](javascript:alert(1)) <img src=x onerror=alert(1)>", str)
    assert "<script" not in page.body and "<img" not in page.body and 'href="javascript' not in page.body


def test_answers_are_hidden_and_no_other_markup_is_kept():
    answer = "<details><summary>Answer</summary>\n\n*0.42* <b>x</b>\n\n</details>"
    body = markdown_page(answer, str).body
    assert body == ("<details><summary>Answer</summary>\n<p><em>0.42</em> &lt;b&gt;x&lt;/b&gt;</p>\n</details>\n")


@pytest.mark.parametrize(
    "text",
    [
        "</details>",
        "<details><summary>Answer</summary>\n\nnever closed",
        "<details open ontoggle=alert(1)><summary>Answer</summary>\n\n</details>",
        "<details><summary>Answer</summary> <script>alert(1)</script>\n\n</details>",
        "<details><summary><img src=x onerror=alert(1)></summary>\n\n</details>",
        "- <details><summary>Answer</summary>\n\n</details>",
        "`<details><summary>Answer</summary>`\n\n</details>",
    ],
)
def test_markup_that_is_not_exactly_a_hidden_answer_is_text(text):
    body = markdown_page(text, str).body
    assert "<details" not in body and "</details" not in body and "<script" not in body and "<img" not in body


def test_lessons_lead_through_the_course(folder):
    lessons = sorted((folder / "lessons").glob("[0-9][0-9]-*.html"))
    assert len(lessons) == 12
    assert [path.name for path in lessons if "&lt;!--" in path.read_text(encoding="utf-8")] == []
    for place, path in enumerate(lessons):
        text = path.read_text(encoding="utf-8")
        assert text.count(f"Lesson {place + 1} of 12") == 2
        assert text.count('rel="prev"') == 2 * (place > 0) and text.count('rel="next"') == 2 * (place < 11)
        assert text.count("../index.html#") == 2 and "live:" not in text
        assert text.count("<summary>Answer</summary>") >= 3 and text.count("<img ") >= 3


def test_the_first_page_is_small_and_has_a_film(folder):
    assert (folder / "index.html").stat().st_size < 2_500_000
    assert (folder / "films" / "relations.html").stat().st_size < 1_500_000
    assert "films.html" in (folder / "index.html").read_text(encoding="utf-8")


def test_lessons_have_live_figures_and_other_pages_run_nothing(folder):
    live = {path.stem for path in (folder / "lessons").glob("*.html") if "regard-live" in path.read_text("utf-8")}
    assert live == {"01-who-left", "04-one-table", "05-why-root-d"}
    for path in (folder / "lessons").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert ("script-src" in text) is (path.stem in live) is ("<script" in text)
        assert "<!-- figure" not in text and "&lt;!-- figure" not in text and "regard-figure-" not in text


def test_a_site_removes_the_pages_of_an_older_one_and_nothing_else(tmp_path):
    (tmp_path / "kept.html").write_text("mine")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "gone.html").write_text("of the older site")
    outside = tmp_path.parent / "outside.html"
    outside.write_text("mine")
    names = ["old/gone.html", "index.html", "../outside.html", str(outside), 7]
    (tmp_path / site.site.MANIFEST).write_text(json.dumps(names))
    listed = site.site._earlier_files(tmp_path)
    assert listed == {"old/gone.html", "index.html"}
    site.site._remove(tmp_path, listed - {"index.html"})
    assert not (tmp_path / "old").exists()
    assert (tmp_path / "kept.html").exists() and outside.exists()
    (tmp_path / site.site.MANIFEST).write_text("{")
    assert site.site._earlier_files(tmp_path) == set()


def test_the_manifest_lists_every_file(folder):
    listed = set(json.loads((folder / site.site.MANIFEST).read_text()))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert listed == files - {site.site.MANIFEST}


def test_links_to_what_is_not_there_are_words():
    assert markdown_page("See [there](nowhere.md).", lambda path: None).body == "<p>See there.</p>\n"
