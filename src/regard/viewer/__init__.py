"""Answers the viewer's queries about readings, traces, attentions and look-ups, for the studio, notebooks and pages.

frames.py      wire format of every answer: a JSON header, then arrays
params.py      validation of query parameters
description.py the types of what a page is told
describe.py    the `describe` answer about a reading or a look-up
queries.py     `Answers`: a query in, a frame out
long_texts.py  exact pooled maps of long texts, and estimates from sampled rows
bundle.py      the JavaScript modules as one script
page.py        the one-file page
widget.py      the notebook widget
"""
