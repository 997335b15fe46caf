"""The studio's page, and the viewer's own files."""

from __future__ import annotations

import re
from importlib.resources import files
from mimetypes import guess_type

from regard.studio.auth import Refused

LONGEST_PATH = 200  # characters: a longer name raises OSError in is_file()
_PATH = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*\.(js|css|svg)")


def index() -> str:
    """The page: only links to its style sheets and its script."""
    sheets = sorted(part.name for part in files("regard").joinpath("web").iterdir() if part.name.endswith(".css"))
    links = "".join(f'<link rel="stylesheet" href="/web/{name}">\n' for name in sheets)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>Regard</title>\n<link rel="icon" href="data:,">\n'
        f'{links}<script type="module" src="/web/hosts/studio.js"></script>\n</head>\n'
        '<body class="regard-page"><div id="regard"><noscript>The studio needs JavaScript, which is '
        "disabled.</noscript></div></body>\n</html>\n"
    )


def web_file(path: str) -> tuple[bytes, str]:
    """One of the viewer's files and its content type."""
    found = files("regard").joinpath("web", *path.split("/"))
    if len(path) > LONGEST_PATH or not _PATH.fullmatch(path) or not found.is_file():
        raise Refused(404, "There is no such file.")
    kind = "text/javascript" if path.endswith(".js") else guess_type(path)[0] or "text/plain"
    return found.read_bytes(), f"{kind}; charset=utf-8"
