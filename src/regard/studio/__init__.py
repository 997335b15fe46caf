"""The studio: a local server that reads texts and answers the viewer's queries about them.

server.py   the application: its routes, the page, the open readings
auth.py     access control: token and cookie, Host and Origin, response headers
jobs.py     computation on threads, with progress and cancellation
library.py  the available models
serve.py    starts the server
"""
