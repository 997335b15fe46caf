"""Hard and soft look-up: from a dictionary to attention."""

from regard.teaching.lookup.answer import Answer
from regard.teaching.lookup.dictionary import Lookup, lookup
from regard.teaching.lookup.lesson import lookup_lesson

__all__ = ["Answer", "Lookup", "lookup", "lookup_lesson"]
