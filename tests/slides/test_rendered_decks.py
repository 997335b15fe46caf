"""Decks as programs show them: the page in Chromium, PowerPoint's file through LibreOffice, the PDF's text."""

import io
import re
import shutil
import subprocess

import numpy as np
import pytest

from regard import slides
from regard.arrays import numpy_of
from regard.slides.deck import Deck, SlideGrid, place
from regard.slides.lecture import Lecture, vector
from regard.tables import printed_number
from regard.teaching.traced_attention import traced

TEXT = "The kids were scared of the lions, so they left right away."
SIZES = ((1280, 720), (1920, 1080))
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom
LIVE = ["matrices", "purpose", "table", "matrix-form", "positions"]


def open_deck(browser, deck: Deck, folder, size=SIZES[0]):
    path = folder / "deck.html"
    slides.save(deck, path)
    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    return page, errors


# What sticks out of its slide, or lies on another element of it; lines of text by their own boxes.
FAULTS = """() => {
  const faults = [];
  const section = document.querySelector('section.shown'), frame = section.getBoundingClientRect();
  const boxes = [...section.querySelectorAll(':scope > h1, :scope > .part')].map(part => {
    const range = document.createRange();
    range.selectNodeContents(part);
    const box = (part.matches('div, table') ? part : range).getBoundingClientRect();
    return {box, name: part.tagName + ' ' + part.textContent.trim().slice(0, 30)};
  });
  for (const {box, name} of boxes)
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1)
      faults.push('outside: ' + name);
  boxes.forEach(({box: a, name}, at) => boxes.slice(at + 1).forEach(({box: b, name: other}) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1) faults.push(name + ' on ' + other);
  }));
  for (const cell of section.querySelectorAll('td, th'))
    if (cell.scrollWidth > cell.clientWidth + 1) faults.push('cell: ' + cell.textContent);
  const scale = frame.width / 960;
  const texts = [...section.querySelectorAll('svg text, svg tspan')].filter(text => text.textContent.trim());
  const small = texts.map(text => {
    const svg = text.closest('svg'), zoom = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width / scale;
    return parseFloat(getComputedStyle(text).fontSize) * zoom;
  }).filter(size => size < 17.95);
  if (small.length) faults.push('type of ' + Math.min(...small));
  return faults;
}"""


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_nothing_overlaps_or_leaves_its_slide_in_chromium(chromium, tmp_path, size):
    deck = slides.deck_of(TEXT)
    page, errors = open_deck(chromium, deck, tmp_path, size)
    faults = {}
    for slide in deck.slides:
        if found := page.evaluate(FAULTS):
            faults[slide.title] = found
        page.keyboard.press("ArrowRight")
    page.close()
    assert faults == {} and errors == []


def test_a_changed_embedding_changes_every_number_that_follows_from_it(chromium, tmp_path):
    row, component, number = 1, 2, 3.0
    words = list(Lecture(TEXT).words)
    deck = slides.deck_of(TEXT, LIVE)
    page, errors = open_deck(chromium, deck, tmp_path)
    cell = page.locator(f"td[data-live='x {row}'] [data-component='{component}']").first
    page.evaluate("number => location.hash = '#' + number", 1)
    before = page.evaluate("() => document.querySelector('section.shown h1').textContent")
    cell.click()
    cell.fill("2")
    cell.press("ArrowUp")
    cell.press("Enter")
    assert page.evaluate("() => document.querySelector('section.shown h1').textContent") == before  # no slide turned

    x = np.array(traced(words, width=64).inputs.x)
    x[row, component] = number
    content = {"embeddings": x.tolist(), **{n: m.tolist() for n, m in traced(words, width=64).inputs.matrices.items()}}
    plain = traced(words, content).whole()
    positioned = traced(words, content, positions="sinusoidal").whole()

    def expected(name: str) -> str:
        kind, *places = name.removeprefix("p.").split()
        trace = positioned if name.startswith("p.") else plain
        at = tuple(map(int, places))
        if kind == "x":
            return vector(numpy_of(trace["positioned" if "positioned" in trace else "embedding"])[at])
        steps = {"q": "query", "k": "key", "v": "value", "z": "output", "weighted": "weighted_value"}
        value = numpy_of(trace[steps.get(kind, kind)])[(0, *at)]
        return vector(value) if value.ndim else printed_number(value, 1 if kind == "score" else 2)

    shown = page.evaluate(
        "() => [...document.querySelectorAll('td[data-live]')].map(c => [c.dataset.live, c.textContent])"
    )
    assert len(shown) > 200
    wrong = {name: (text, expected(name)) for name, text in shown if text.replace("\xa0", " ") != expected(name)}
    assert wrong == {} and errors == []
    weights = plain["weight"][0]
    fills = page.evaluate(
        "() => [...document.querySelector(\"g[data-live='weight']\").querySelectorAll('rect')].map(r => r.textContent)"
    )
    numbers = [float(found[0]) for text in fills if (found := re.search(r"[\d.]+$", text))]
    assert np.allclose(numbers, weights.ravel(), atol=6e-5)
    page.close()


def test_keys_turn_slides_and_show_notes_and_pointer(chromium, tmp_path):
    deck = slides.deck_of("The cat sat", ["table"])
    page, errors = open_deck(chromium, deck, tmp_path)
    for key, expected in (("ArrowRight", 2), ("End", len(deck.slides)), ("PageUp", len(deck.slides) - 1), ("Home", 1)):
        page.keyboard.press(key)
        assert page.url.endswith(f"#{expected}")
    page.keyboard.press("n")
    page.keyboard.press("p")
    assert page.evaluate("() => document.body.className") == "notes pointing"
    assert page.locator("aside.shown").is_visible() and errors == []
    page.close()


# PowerPoint and PDF


def boxes_of(slide):
    """Rectangles of a slide's shapes, in points: left, top, right, bottom."""
    for shape in slide.shapes:
        left, top, width, height = (length / 12700 for length in (shape.left, shape.top, shape.width, shape.height))
        yield shape.name, (left, top, left + width, top + height)


def overlaps(one: Rectangle, other: Rectangle) -> bool:
    return min(one[2], other[2]) - max(one[0], other[0]) > 0.5 and min(one[3], other[3]) - max(one[1], other[1]) > 0.5


@pytest.fixture(scope="module")
def presentation():
    pptx = pytest.importorskip("pptx")
    pytest.importorskip("typst")
    content = slides.content(slides.deck_of(TEXT), ".pptx")
    assert isinstance(content, bytes)
    return content, pptx.Presentation(io.BytesIO(content))


@pytest.mark.slow
def test_shapes_of_a_powerpoint_slide_do_not_overlap(presentation):
    for slide in presentation[1].slides:
        boxes = list(boxes_of(slide))
        assert all(box[0] >= 0 and box[2] <= 960.5 and box[3] <= 540.5 for _, box in boxes)
        pairs = [(a, b) for at, a in enumerate(boxes) for b in boxes[at + 1 :] if overlaps(a[1], b[1])]
        assert pairs == [], slide.shapes.title.text


@pytest.mark.slow
def test_no_type_in_the_powerpoint_file_is_below_18_pt(presentation):
    """Every `sz` of the XML, which is in hundredths of a point; figures by the deck's own measure."""
    import zipfile

    with zipfile.ZipFile(io.BytesIO(presentation[0])) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)]
        texts = [archive.read(name).decode() for name in names]
    sizes = [int(size) for text in texts for size in re.findall(r'<a:rPr[^>]* sz="(\d+)"', text)]
    runs = sum(text.count("<a:r>") for text in texts)
    assert len(sizes) == runs > 1000 and min(sizes) >= 1800


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils are not installed")
def test_libreoffice_shows_the_powerpoint_file_as_it_was_laid_out(presentation, tmp_path):
    """A page per slide; tables keep the height that they were given, and no word lies on another."""
    content, opened = presentation
    (tmp_path / "deck.pptx").write_bytes(content)
    command = ["soffice", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to", "pdf"]
    subprocess.run([*command, "--outdir", str(tmp_path), str(tmp_path / "deck.pptx")], check=True, capture_output=True)
    pages = words_of_pdf(tmp_path / "deck.pdf")
    assert len(pages) == len(opened.slides)
    faults = {}
    for number, (words, slide) in enumerate(zip(pages, opened.slides, strict=True)):
        low = max((box[3] for _, box in boxes_of(slide)), default=540)
        found = [word for word, box in words if box[2] > 961 or box[3] > min(low + 12, 541)]
        found += [f"{a[0]} on {b[0]}" for at, a in enumerate(words) for b in words[at + 1 :] if collide(a[1], b[1])]
        if found:
            faults[number + 1, slide.shapes.title.text] = found[:4]
    assert faults == {}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler-utils are not installed")
def test_no_words_of_the_pdf_overlap_and_all_its_tables_are_there(tmp_path):
    pytest.importorskip("typst")
    deck = slides.deck_of(TEXT)
    path = tmp_path / "deck.pdf"
    slides.save(deck, path)
    pages = words_of_pdf(path)
    assert len(pages) == len(deck.slides)
    faults = {}
    for slide, words in zip(deck.slides, pages, strict=True):
        found = [word for word, box in words if box[0] < 40 or box[2] > 925 or box[3] > 535]
        found += [f"{a[0]} on {b[0]}" for at, a in enumerate(words) for b in words[at + 1 :] if collide(a[1], b[1])]
        if found:
            faults[slide.title] = found[:4]
        text = "".join(word for word, _ in words)
        for placed in place(slide):
            if isinstance(placed.element, SlideGrid):
                cells = [cell for row in placed.element.rows for cell in row if re.fullmatch(r"[\d.−]+", cell)]
                assert all(cell in text for cell in cells), slide.title
    assert faults == {}


def words_of_pdf(path) -> list[list[tuple[str, Rectangle]]]:
    """For each page its words with their boxes: left, top, right, bottom."""
    text = subprocess.run(["pdftotext", "-bbox", str(path), "-"], check=True, capture_output=True, text=True).stdout
    return [
        [
            (word, (float(box[0]), float(box[1]), float(box[2]), float(box[3])))
            for *box, word in re.findall(
                r'<word xMin="([\d.-]+)" yMin="([\d.-]+)" xMax="([\d.-]+)" yMax="([\d.-]+)">(.*?)</word>', page
            )
        ]
        for page in text.split("<page ")[1:]
    ]


def collide(one: Rectangle, other: Rectangle) -> bool:
    """Whether two words cover each other by more than the corners that fonts give their boxes."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return wide > 3 and high > 0.5 * min(one[3] - one[1], other[3] - other[1])
