"""Writes the small treebank of the tests: `python tests/heads/make_treebank.py`. The sentences are our own.

One line for each sentence; a word is form/part of speech/head/relation, heads counted from 1, 0 for the root.
"""

from __future__ import annotations

from pathlib import Path

FRAMES = [
    "The/DET/2/det {a}/NOUN/3/nsubj {v}/VERB/0/root the/DET/5/det {b}/NOUN/3/obj ./PUNCT/3/punct",
    "{n}/PROPN/2/nsubj {v}/VERB/0/root a/DET/5/det small/ADJ/5/amod {b}/NOUN/2/obj in/ADP/8/case the/DET/8/det "
    "{p}/NOUN/2/obl ./PUNCT/2/punct",
    "{n}/PROPN/3/nmod:poss 's/PART/1/case {a}/NOUN/5/nsubj has/AUX/5/aux {w}/VERB/0/root our/PRON/7/nmod:poss "
    "{b}/NOUN/5/obj ./PUNCT/5/punct",
    "Yesterday/ADV/4/advmod the/DET/3/det {a}/NOUN/4/nsubj slept/VERB/0/root under/ADP/7/case the/DET/7/det "
    "{p}/NOUN/4/obl ./PUNCT/4/punct",
    "The/DET/2/det {b}/NOUN/7/nsubj:pass on/ADP/5/case the/DET/5/det {p}/NOUN/2/nmod was/AUX/7/aux:pass "
    "{w}/VERB/0/root today/ADV/7/advmod ./PUNCT/7/punct",
]  # fmt: skip
ANIMALS = ["dog", "teacher", "farmer", "nurse", "sailor", "girl", "writer", "neighbour"]
THINGS = ["letter", "lamp", "basket", "window", "bread", "guitar", "map", "bicycle"]
PLACES = ["kitchen", "garden", "bridge", "table", "tower", "market", "barn", "library"]
NAMES = ["Sarah", "Omar", "Mei", "Pablo", "Anna", "Kofi", "Lena", "Ivan"]
PAST = ["found", "painted", "dropped", "carried", "bought", "hid", "moved", "cleaned"]
DONE = ["found", "painted", "dropped", "carried", "bought", "hidden", "moved", "cleaned"]


def sentences(shift: int) -> list[str]:
    found = []
    for number in range(len(ANIMALS)):
        for place, frame in enumerate(FRAMES):
            at = (number * 3 + place * 5 + shift) % 8
            found.append(
                frame.format(
                    a=ANIMALS[at], b=THINGS[(at + number) % 8], p=PLACES[(at + 2 * place) % 8],
                    n=NAMES[(number + place) % 8], v=PAST[(at + 1) % 8], w=DONE[(number + shift) % 8],
                )
            )  # fmt: skip
    return found


def conllu(lines: list[str], name: str) -> str:
    blocks = []
    for number, line in enumerate(lines, 1):
        rows = [f"# sent_id = {name}-{number}"]
        words = line.split(" ")
        for position, word in enumerate(words, 1):
            form, pos, head, relation = word.split("/", 3)
            glued = position < len(words) and words[position].split("/")[0] in (".", "'s")
            lemma, misc = form.lower(), "SpaceAfter=No" if glued else "_"
            rows.append(f"{position}\t{form}\t{lemma}\t{pos}\t_\t_\t{head}\t{relation}\t_\t{misc}")
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks) + "\n"


if __name__ == "__main__":
    here = Path(__file__).parent
    (here / "small-dev.conllu").write_text(conllu(sentences(0), "small-dev"), encoding="utf-8")
    (here / "small-test.conllu").write_text(conllu(sentences(3), "small-test"), encoding="utf-8")
