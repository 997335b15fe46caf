"""Lines that tokenisers may disagree on: real text, every code point, hostile mixtures; the same every time."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SCRIPTS = {
    "latin": (0x41, 0x5A, 0x61, 0x7A, 0xC0, 0x24F, 0x1E00, 0x1EFF),
    "greek and cyrillic": (0x370, 0x3FF, 0x400, 0x52F, 0x1F00, 0x1FFF),
    "arabic": (0x600, 0x6FF, 0x750, 0x77F, 0xFB50, 0xFDFF, 0xFE70, 0xFEFF),
    "hebrew": (0x590, 0x5FF, 0xFB1D, 0xFB4F),
    "devanagari and bengali": (0x900, 0x97F, 0x980, 0x9FF),
    "thai and tibetan": (0xE00, 0xE7F, 0xF00, 0xFDA),
    "cjk": (0x3000, 0x30FF, 0x3400, 0x3430, 0x4E00, 0x9FFF, 0xF900, 0xFAFF, 0x20000, 0x20100, 0x2F800, 0x2FA1D),
    "hangul": (0x1100, 0x11FF, 0xAC00, 0xD7A3),
    "marks": (0x300, 0x36F, 0x483, 0x489, 0x1AB0, 0x1AFF, 0x1DC0, 0x1DFF, 0x20D0, 0x20FF, 0x302A, 0x302F,
              0xFE20, 0xFE2F),
    "marks of all kinds": (0x5B0, 0x5BD, 0x64B, 0x655, 0x93C, 0x94D, 0xE38, 0xE3A, 0xF71, 0xF84, 0x1D165, 0x1D172),
    "controls": (0x0, 0x20, 0x7F, 0xA0, 0xAD, 0xAD, 0x2000, 0x200F, 0x2028, 0x202F, 0x2060, 0x206F, 0xFEFF, 0xFEFF,
                 0xFFF9, 0xFFFF, 0xE0001, 0xE007F, 0xE0100, 0xE01EF),
    "symbols": (0x21, 0x2F, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E, 0xA1, 0xBF, 0x2010, 0x205E, 0x20A0, 0x2BFF,
                0x2E00, 0x2E5D),
    "digits": (0x30, 0x39, 0xB2, 0xB3, 0xBC, 0xBE, 0x660, 0x669, 0x966, 0x96F, 0x2150, 0x218B, 0x2460, 0x249B,
               0x3021, 0x3029, 0x1D7CE, 0x1D7FF),
    "emoji": (0x1F000, 0x1FAFF, 0x2600, 0x27BF),
    "lone surrogates": (0xD800, 0xDBFF),
    "anything": (0x0, 0xD7FF, 0xE000, 0x10FFFF),
}  # fmt: skip
SMALL = " \t\n\r  \xa0\u3000'''sStTrReEvVlLmMdDſaA19½²一.!-_\u0301"
SPECIALS = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<|im_", "<|im_start|>  <|im_ x", "do not",
    "[CLS]", "[MASK]", "[UNK]", "[mask]", "[MAS",
]  # fmt: skip
PEOPLE = ["👩", "👨", "🧑", "👧", "🧙", "🏃", "✊", "👍"]
SENTENCES = [
    "السلام عليكم ورحمة الله، كيف حالك؟",
    "שָׁלוֹם עֲלֵיכֶם, מה שלומך היום?",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก วันนี้อากาศดีมาก",
    "今日は良い天気ですね。東京へ行きます。",
    "안녕하세요 세계! 오늘 날씨가 좋네요.",
    "Ça va? L'été naïf, Ångström, Straße, ĳs",
    "İstanbul'da ΟΔΥΣΣΕΥΣ",
    "don't can't we'll I'm they've he'd it's DON'T",
    "In 2024 there were 31,415 of them (3.14).",
    "e\u0301\u0316a\u0345\u0344o\u0328\u0304",
]


def of_script(draw: random.Random, name: str) -> str:
    bounds = SCRIPTS[name]
    at = 2 * draw.randrange(len(bounds) // 2)
    return chr(draw.randint(bounds[at], bounds[at + 1]))


def script(draw: random.Random) -> str:
    """Words of one script, with a few of another."""
    names = [draw.choice(list(SCRIPTS)), draw.choice(list(SCRIPTS))]
    words = []
    for _ in range(draw.randint(1, 8)):
        name = names[draw.random() < 0.2]
        words.append("".join(of_script(draw, name) for _ in range(draw.randint(1, 9))))
    return draw.choice(["", " ", " ", "  ", "\n"]).join(words)


def mixture(draw: random.Random) -> str:
    """Characters of all scripts beside each other."""
    return "".join(of_script(draw, draw.choice(list(SCRIPTS))) for _ in range(draw.randint(1, 24)))


def accents(draw: random.Random) -> str:
    """Letters with marks in any order, which NFD sorts."""
    marks = ["marks", "marks of all kinds", "marks of all kinds", "devanagari and bengali", "latin"]
    return "".join(of_script(draw, draw.choice(marks)) for _ in range(draw.randint(2, 16)))


def edges(draw: random.Random) -> str:
    """White space, contractions, digits and case: what the expressions of pre-tokenisers turn on."""
    return "".join(draw.choice(SMALL) for _ in range(draw.randint(1, 30)))


def faces(draw: random.Random) -> str:
    """Emoji with joiners, skin tones, variation selectors and flags."""

    def face() -> str:
        tone = draw.choice(["", "", *(chr(0x1F3FB + n) for n in range(5))])
        return draw.choice(PEOPLE) + tone + draw.choice(["", "\ufe0f"])

    flag = "".join(chr(draw.randint(0x1F1E6, 0x1F1FF)) for _ in range(2))
    joined = ["\u200d".join(face() for _ in range(draw.randint(1, 4))) for _ in range(draw.randint(1, 4))]
    return draw.choice(["", " ", " so "]).join([*joined, flag])


def with_specials(draw: random.Random) -> str:
    parts = [draw.choice([draw.choice(SPECIALS), edges(draw), "word", " ", "é"]) for _ in range(draw.randint(1, 7))]
    return "".join(parts)


def sentence(draw: random.Random) -> str:
    """A sentence of a language, with one character changed."""
    text = list(draw.choice(SENTENCES))
    text[draw.randrange(len(text))] = of_script(draw, draw.choice(list(SCRIPTS)))
    return "".join(text)


def long(draw: random.Random) -> str:
    """Long words and long runs."""
    letters = "".join(draw.choices("abc", k=40))
    part = draw.choice([mixture(draw)[:3], edges(draw)[:2], draw.choice("aA1.' \n字é😀"), letters])
    return draw.choice(["", "a", " "]) + part * draw.randint(20, 120) + draw.choice(["", "b", "\n"])


KINDS: list[Callable[[random.Random], str]] = [
    script, script, mixture, accents, edges, edges, faces, with_specials, sentence, sentence,
]  # fmt: skip


def real() -> list[str]:
    """The documents and the code of this repository."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "src" / "regard").rglob("*.py")]
    return [line for file in sorted(files) for line in file.read_text(encoding="utf-8").split("\n") if line.strip()]


def code_points(codes: list[int], together: int) -> Iterator[str]:
    """Each code point between letters, alone, and twice before a digit, `together` per line."""
    for first in range(0, len(codes), together):
        yield " ".join(f"a{chr(code)}b {chr(code)} {chr(code)}{chr(code)}1" for code in codes[first : first + together])


def lines(count: int, codes: list[int], together: int, seed: int = 2024) -> list[str]:
    """`count` drawn lines, some of them long, a quarter as many of this repository, and `codes` by `code_points`."""
    draw = random.Random(seed)
    written = real()
    made = [draw.choice(KINDS)(draw) for _ in range(count)]
    made += [long(draw) for _ in range(count // 100)]
    made += draw.sample(written, min(len(written), count // 4))
    made += ["", " ", "\n", "\x00", "\ufeff", "\ufeffword", "a\x00b", "\ud800"]
    made += ["x" * 101, "é" * 100, "é" * 101, "word " * 600]
    made += code_points(codes, together)
    # Two surrogates that make a pair are two characters in Python and one in JavaScript.
    return [line.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") for line in made]


def beyond(count: int) -> list[int]:
    """Code points after U+FFFF, half of them in the plane of scripts and emoji."""
    draw = random.Random(count)
    return draw.sample(range(0x10000, 0x20000), count // 2) + draw.sample(range(0x20000, 0x110000), count // 2)
