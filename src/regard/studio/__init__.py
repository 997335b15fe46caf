"""The studio: a local server that reads texts and answers what a page asks about them.

server.py    the application: its addresses, and what each of them answers
guarding.py  who may ask: token and cookie, Host and Origin, headers, sizes
working.py   computation on threads, given up when nobody waits for it
jobs.py      long work in the background, with progress
shelf.py     the readings at hand
library.py   the models at hand
pages.py     the page, and the viewer's own files
running.py   from a command to a running server
"""
