"""What a view asks and gets: readings, traces, attentions and look-ups for the studio, notebooks and one-file pages.

frames.py      how every answer travels: a header in JSON, then arrays
subject.py     anything that can be looked at, in one form
describing.py  what a view has to know before it draws
checking.py    the parameters of a question, each checked
answering.py   `Answers`: a question in, a frame out
weights.py     the numbers of short texts, exact and at once
sampling.py    those of long texts from some of their rows
pyramid.py     the whole map of a long text, exact, kept in cells
vectors.py     queries, keys, values, and the steps after attention
joining.py     the JavaScript modules as one script
page.py        everything in one file
widget.py      notebooks
"""
