"""Answers the viewer's queries about readings, traces, attentions and look-ups, for the studio, notebooks and pages.

frames.py     wire format of every answer: a JSON header, then arrays
subject.py    one form for everything that can be viewed
metadata.py   the `describe` answer: what a view needs before it draws
params.py     validation of query parameters
queries.py    `Answers`: a query in, a frame out
weights.py    exact weights of short texts
sampling.py   estimates for long texts from sampled rows
pyramid.py    exact pooled maps of long texts
vectors.py    queries, keys, values, and the steps after attention
bundle.py     the JavaScript modules as one script
page_data.py  what a one-file page stores of each layer
page.py       the one-file page
widget.py     the notebook widget
"""
