"""Views: each file draws for one medium."""
