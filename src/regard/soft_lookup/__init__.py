"""The dictionary, hard and soft: where attention comes from."""

from regard.soft_lookup.answer import Answer
from regard.soft_lookup.dictionary import Lookup, lookup
from regard.soft_lookup.lesson import lookup_lesson

__all__ = ["Answer", "Lookup", "lookup", "lookup_lesson"]
