"""Numbers of lessons: each decimal in the text is one that the lesson's code gives, or a recorded run."""

import re
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[2] / "docs" / "lessons").glob("*.md"))
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"<!-- recorded: \w+ -->.*?<!-- end -->", re.DOTALL)  # tests/training/test_recorded.py
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]\d)")
# Numbers that are supposed, not measured.
SUPPOSED = {"01": {"1.2"}, "07": {"0.9", "0.1"}, "12": {"0.95"}}


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_every_decimal_of_the_text_is_in_the_code_or_its_result(lesson):
    """tests/test_readme.py runs the code and compares its results."""
    text = lesson.read_text(encoding="utf-8")
    code = "\n".join(CODE.findall(text))
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", " ", TABLE.sub(" ", CODE.sub(" ", text)))
    prose = re.sub(r"\bheads? \d\.\d+", " ", prose)  # layer and head
    written = set(DECIMAL.findall(prose))
    assert written - set(DECIMAL.findall(code)) - SUPPOSED.get(lesson.name[:2], set()) == set()


@pytest.mark.parametrize(
    "sentence", ["position 3 always multiplies position 3", "Words name their partner", "which denotes the limit"]
)
def test_sentences_that_were_wrong_are_gone(sentence):
    assert [path.name for path in LESSONS if sentence.lower() in path.read_text(encoding="utf-8").lower()] == []
