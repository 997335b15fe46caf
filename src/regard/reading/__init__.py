"""A text that a model has read: its tokens and words, the attention of every layer, and tables of it."""

from regard.reading.certificate import Certificate
from regard.reading.reading import Reading
from regard.reading.votes import HeadVote, Votes
from regard.reading.words import Token, Word

__all__ = ["Certificate", "HeadVote", "Reading", "Token", "Votes", "Word"]
