"""The store: models by name, downloaded once, verified, and kept in the user's cache."""

from regard.models.store.cache import CachedModel, all_kept, root
from regard.models.store.catalogue import CATALOGUE, File, Known
from regard.models.store.resolve import find, get, kept, remove

__all__ = ["CATALOGUE", "CachedModel", "File", "Known", "all_kept", "find", "get", "kept", "remove", "root"]
