"""A static site: the front door, lessons and documentation as pages, what heads do, films of training.

course.py    the numbered lessons: order and links
pages.py     Markdown and Python files as pages with one header
site.py      `write`: the whole folder

Links are relative and nothing is requested from elsewhere: any static host serves it, and most of it opens from disk.
"""

from regard.site.site import write

__all__ = ["write"]
