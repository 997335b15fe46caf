"""The studio: a local server that reads texts and answers the viewer's queries about them.

server.py       the application: its routes, the page, the open readings
auth.py         access control: tickets and the key, Host and Origin, response headers
connections.py  time limits of connections
jobs.py         computation on threads, with progress and cancellation
library.py      the available models
serve.py        starts the server
"""
