"""A text that a model has read: its tokens and words, every layer's attention, and what people ask about them."""

from regard.reading.certificate import Certificate
from regard.reading.reading import Reading
from regard.reading.tokens import Token, Word

__all__ = ["Certificate", "Reading", "Token", "Word"]
