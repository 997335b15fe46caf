"""The studio: a local server that reads texts and answers the viewer's queries about them.

server.py    the application: its routes
auth.py      access control: token and cookie, Host and Origin, response headers
workers.py   computation on threads, cancelled when the client disconnects
jobs.py      long work in the background, with progress
sessions.py  the open readings
library.py   the available models
pages.py     the page, and the viewer's own files
serve.py     starts the server
"""
