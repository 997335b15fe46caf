"""CoNLL-U files, well formed and broken."""

import random
import sys

import numpy as np
import pytest

from regard.errors import OptionError
from regard.heads import treebank
from regard.heads import treebank_relations as relations
from regard.heads.treebank import parse, read

GOOD = """\
# text = I don't sing.
1\tI\tI\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tsing\tsing\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
4.1\tsongs\tsong\tNOUN\t_\t_\t_\t_\t4:obj\t_
5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_
"""


def row(position, form, head, relation="dep", columns=10):
    cells = [str(position), form, form, "X", "_", "_", str(head), relation, "_", "_"]
    return "\t".join(cells[:columns])


def lines(text):
    return text.encode().split(b"\n")


def test_ranges_empty_nodes_and_blanks_give_the_text_and_the_place_of_every_word():
    (sentence,) = parse(lines(GOOD)).sentences
    assert sentence.text == "I don't sing."
    assert [sentence.text[word.start : word.stop] for word in sentence.words] == ["I", "do", "n't", "sing", "."]
    assert [word.head for word in sentence.words] == [3, 3, 3, -1, 3]


def test_a_contraction_that_is_respelled_gives_its_place_to_the_first_word():
    text = "1-2\tau\t_\t_\t_\t_\t_\t_\t_\t_\n" + row(1, "à", 0) + "\n" + row(2, "le", 1) + "\n"
    (sentence,) = parse(lines(text)).sentences
    assert [(word.start, word.stop) for word in sentence.words] == [(0, 2), (2, 2)]


def test_the_antecedent_of_a_relative_pronoun_comes_from_the_enhanced_graph():
    cells = row(2, "who", 1).split("\t")
    cells[8] = "1:ref"
    (sentence,) = parse(lines(row(1, "man", 0) + "\n" + "\t".join(cells))).sentences
    assert [word.refers for word in sentence.words] == [-1, 0]


@pytest.mark.parametrize(
    ("bad", "line", "why"),
    [
        (row(1, "a", 0, columns=9), 1, "it has 9 columns, expected 10"),
        (row(1, "a", 2) + "\n" + row(2, "b", 1), 1, "word 1 depends on itself through a cycle"),
        (row(1, "a", 1), 1, "word 1 is its own head"),
        (row(1, "a", 7), 1, "the head is 7, the sentence has 1 words"),
        (row(1, "a", "_"), 1, "the head is '_', expected an integer"),
        (row(1, "a", 0) + "\n" + row(3, "b", 1), 2, "word 3 stands where word 2 was expected"),
        (row(1, "a", 0) + "\n" + row(1, "a", 0), 2, "word 1 stands where word 2 was expected"),
        ("1-3\tab" + "\t_" * 8 + "\n" + row(1, "a", 0), 1, "a multiword token reaches beyond the last word"),
        ("2-1\tab" + "\t_" * 8 + "\n" + row(1, "a", 0), 1, "the range 2-1 does not start at the next word"),
        ("x\ta" + "\t_" * 8, 1, "the position of a word is 'x', expected 7, 7-8 or 7.1"),
        (row(1, " ", 0), 1, "a word has no form"),
        ("1.1\ta" + "\t_" * 8, 1, "it has no words"),
    ],
)
def test_a_malformed_sentence_is_skipped_with_its_line_and_the_others_are_read(bad, line, why):
    found = parse(lines(f"{GOOD}\n{bad}\n\n{GOOD}"))
    assert len(found.sentences) == 2
    assert [(one.line, one.why) for one in found.skipped] == [(9 + line, why)]


def test_a_wrong_encoding_is_skipped_by_sentence():
    text = f"{GOOD}\n{row(1, 'café', 0)}\n\n{GOOD}".encode("latin-1")
    found = parse(text.split(b"\n"))
    assert len(found.sentences) == 2
    assert found.skipped[0].line == 10 and "not UTF-8" in found.skipped[0].why


def test_a_byte_order_mark_windows_line_ends_and_a_missing_last_line_end_are_read(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.strip().replace("\n", "\r\n").encode())
    assert len(read(path).sentences) == 1 and not read(path).skipped


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OptionError, match=r"nowhere\.conllu' cannot be read"):
        read(tmp_path / "nowhere.conllu")


def test_a_folder_and_a_binary_file_do_not_crash(tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 50)
    assert read(tmp_path / "noise").sentences == ()


def test_pronouns_find_earlier_mentions_of_their_entity_by_the_head_word():
    rows = [
        "1\tThe\tthe\tDET\t_\t_\t3\tdet\t_\tEntity=(e1-animal-new",
        "2\told\told\tADJ\t_\t_\t3\tamod\t_\t_",
        "3\tdog\tdog\tNOUN\t_\t_\t4\tnsubj\t_\tEntity=e1)",
        "4\tsaw\tsee\tVERB\t_\t_\t0\troot\t_\t_",
        "5\tits\tits\tPRON\t_\t_\t6\tnmod:poss\t_\tEntity=(e2-person-new(e1-animal-giv)",
        "6\towner\towner\tNOUN\t_\t_\t4\tobj\t_\tEntity=e2)|SpaceAfter=No",
        "7\tand\tand\tCCONJ\t_\t_\t8\tcc\t_\tEntity=(e7[1/2]-thing)",
        "8\tshe\tshe\tPRON\t_\t_\t4\tconj\t_\tEntity=(e2)",
        "9\tit\tit\tPRON\t_\t_\t8\tobj\t_\tEntity=(e1)",
        "10\tthat\tthat\tPRON\t_\t_\t8\tobj\t_\tEntity=(e9)e5)",
    ]
    sentence = parse([row.encode() for row in rows]).sentences[0]
    assert [word.antecedents for word in sentence.words[4:]] == [(2,), (), (), (5,), (2, 4), ()]
    pairs = [pair[1:] for pair in relations.pairs_of(sentence) if pair.relation == "pronoun"]
    assert pairs == [(4, 2), (7, 5), (8, 2), (8, 4)]
    assert relations.group_of("pronoun") == "what refers to what"


def calls_of(work):
    """How many calls of Python and C functions, and steps of generators, a function takes."""
    count = 0

    def on_event(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def chain(count, entity="_", pos="PRON"):
    """A sentence in which every word depends on the next."""
    entity_of = entity if callable(entity) else lambda place: entity
    return [
        f"{place}\tw\tw\t{pos}\t_\t_\t{place + 1 if place < count else 0}\tnmod\t_\t{entity_of(place)}".encode()
        for place in range(1, count + 1)
    ]


def nested(count):
    """Mentions that all open in the first half and close in the second, the innermost first."""
    return lambda place: f"Entity=(e{place}" if 2 * place <= count else f"Entity=e{count - place + 1})"


@pytest.mark.parametrize(
    "entity", ["_", "Entity=(e1)", nested], ids=["a chain", "mentions of one entity", "nested mentions"]
)
def test_the_work_for_a_sentence_grows_with_its_length_not_with_the_square(entity):
    counts = []
    for length in (500, 4000):
        rows = chain(length, entity(length) if callable(entity) else entity)
        counts.append(calls_of(lambda rows=rows: list(relations.pairs_of(parse(rows).sentences[0]))))
    assert counts[1] < 8 * 2 * counts[0]  # 64 times as many with the square


def test_every_word_of_a_chain_is_compared_a_few_times(monkeypatch):
    comparisons = 0

    class Place(int):
        def __eq__(self, other):
            nonlocal comparisons
            comparisons += 1
            return int(self) == int(other)

        __hash__ = int.__hash__

    treebank._check_tree([*map(Place, range(1, 3000)), -1], list(range(3000)))
    assert comparisons < 10 * 3000


def test_large_sentences_are_read():
    long_entity = "Entity=" + "x" * 200_000
    assert len(parse(chain(60_000)).sentences[0].words) == 60_000
    assert parse(chain(3, long_entity)).sentences[0].words[2].antecedents == ()
    many = parse(chain(20_000, "Entity=(e1)")).sentences[0].words
    assert many[100].antecedents == tuple(range(100 - treebank.MOST_ANTECEDENTS, 100))
    half = parse(chain(20_000, nested(20_000))).sentences[0].words
    assert half[-1].antecedents == ()


def test_a_cycle_in_a_long_chain_is_found():
    rows = chain(3000)
    rows[-1] = rows[-1].replace(b"\t0\t", b"\t1500\t")
    (skipped,) = parse(rows).skipped
    assert "through a cycle" in skipped.why


def test_the_head_word_of_a_mention_is_the_first_whose_head_is_outside():
    generator = random.Random(3)
    for count in (1, 2, 7, 8, 33):
        heads = [generator.randrange(-1, count) for _ in range(count)]
        for first in range(count):
            for last in range(first, count):
                outside = [place for place in range(first, last + 1) if not first <= heads[place] <= last]
                assert treebank._top(np.array(heads), first, last) == (outside[0] if outside else first)
