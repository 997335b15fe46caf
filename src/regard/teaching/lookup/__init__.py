"""The dictionary, hard and soft: where attention comes from."""

from regard.teaching.lookup.answer import Answer
from regard.teaching.lookup.dictionary import Lookup, lookup
from regard.teaching.lookup.lesson import lookup_lesson

__all__ = ["Answer", "Lookup", "lookup", "lookup_lesson"]
