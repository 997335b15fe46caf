"""Documents as pages: Markdown and Python source, with one header and links between them."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from itertools import count
from os.path import relpath
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from regard.output import family
from regard.viewer.page import code, policy_of, program

ANSWER = "<details><summary>Answer</summary>"  # the only markup of a document that is kept: a hidden answer
ANSWER_ENDS = "</details>"
FIGURES_ENTRY = "hosts/figures.js"
STYLE = (Path(__file__).parent / "site.css").read_text(encoding="utf-8") + family.style()
STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; img-src 'self'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Page:
    """A document as HTML, and the files that it leads to."""

    title: str
    body: str
    targets: tuple[str, ...]  # paths beside the document, as it writes them, without fragments


def markdown_page(text: str, address: Callable[[str], str | None]) -> Page:
    """Markdown as a page.

    address   the address of a path that the text links to, from this page; None leaves the words without a link

    >>> page = markdown_page("See [masks](masks.md#causal).", lambda path: "masks.html")
    >>> page.targets, page.body.strip()
    (('masks.md',), '<p>See <a href="masks.html#causal">masks</a>.</p>')
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    _keep_answers(tokens)
    targets: list[str] = []
    title = ""
    slugs: Counter[str] = Counter()
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            content = _plain(tokens[index + 1])
            title = title or content
            slug = re.sub(r"[^\w\- ]", "", content.lower()).replace(" ", "-")  # as GitHub makes it
            token.attrSet("id", f"{slug}-{slugs[slug]}" if slugs[slug] else slug)
            slugs[slug] += 1
        for child in token.children or ():
            _rewrite(child, address, targets)
        if token.children:
            token.children = _without_dead_links(token.children)
    body = str(markdown.renderer.render(tokens, markdown.options, {}))
    body = re.sub(r"<p>(<img [^>]*>)</p>", r'<p class="picture" tabindex="0">\1</p>', body)
    number = count(1)
    region = '<div class="table" tabindex="0" role="region" aria-label="Table {}"><table>'
    body = re.sub("<table>", lambda _: region.format(next(number)), body)
    body = re.sub(r"<th[^>]*></th>", "<td></td>", body).replace("<pre>", '<pre tabindex="0">')
    return Page(title, body.replace("</table>", "</table></div>"), tuple(dict.fromkeys(targets)))


def _keep_answers(tokens: list[Token]) -> None:
    """Makes markup of paragraphs that are exactly the tags of a hidden answer; tags without their partner stay text."""
    opened: int | None = None
    for index in range(len(tokens) - 2):
        paragraph, inline = tokens[index : index + 2]
        if paragraph.type != "paragraph_open" or paragraph.level:
            continue
        if inline.content == ANSWER:
            opened = index
        elif inline.content == ANSWER_ENDS and opened is not None:
            for start, markup in ((opened, ANSWER), (index, ANSWER_ENDS)):
                tokens[start] = Token("html_block", "", 0, content=f"{markup}\n")
                for empty in (start + 1, start + 2):
                    tokens[empty] = Token("html_block", "", 0)
            opened = None


def source_page(name: str, text: str) -> Page:
    """A source file as a page."""
    body = f'<h1>{escape(name)}</h1>\n<pre tabindex="0"><code>{escape(text)}</code></pre>\n'
    return Page(name, body, ())


def document(page: Page, path: str, header: Mapping[str, str], *, label: str = "", figures: Iterable[str] = ()) -> str:
    """A page of the site as an HTML document.

    path      where it is in the site
    header    the pages that the header leads to: labels and paths in the site
    label     that of the header's link which this page belongs to
    figures   the blocks of readings that its live figures show; without figures, nothing in the page is run
    """
    blocks = list(figures)
    script, style = code(FIGURES_ENTRY) if blocks else ("", "")
    policy = policy_of([script], [STYLE, style], "").replace("img-src", "img-src 'self'") if blocks else POLICY
    program_parts = "".join(program(script, style, blocks)) if blocks else ""
    links = {name: relative(path, target) for name, target in header.items()}
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(page.title)} · Regard</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{family.header(links, label)}<main>\n{page.body}</main>\n{program_parts}</body>\n</html>\n"
    )


def relative(start: str, target: str) -> str:
    """The address of one page from another.

    >>> relative("lessons/04-one-table.html", "index.html"), relative("index.html", "reference.html")
    ('../index.html', 'reference.html')
    """
    return PurePosixPath(relpath(target, str(PurePosixPath(start).parent))).as_posix()


def _rewrite(token: Token, address: Callable[[str], str | None], targets: list[str]) -> None:
    """The address of a link or an image: that of a page of the site in the place of the file it names."""
    name = {"link_open": "href", "image": "src"}.get(token.type)
    if name is None:
        return
    written = str(token.attrGet(name) or "")
    parts = urlsplit(written)
    if parts.scheme or parts.netloc or not parts.path:
        return
    path = unquote(parts.path)
    targets.append(path)
    target = address(path)
    token.attrSet(name, "" if target is None else target + (f"#{parts.fragment}" if parts.fragment else ""))


def _without_dead_links(tokens: list[Token]) -> list[Token]:
    kept, is_dead = [], False
    for token in tokens:
        if token.type == "link_open" and not token.attrGet("href"):
            is_dead = True
        elif token.type == "link_close" and is_dead:
            is_dead = False
        elif token.type != "image" or token.attrGet("src"):
            kept.append(token)
    return kept


def _plain(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))
