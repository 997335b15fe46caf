"""What each head of a model does: statistics, patterns, relations, examples and ablation, over any corpus."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.heads.atlas_folder import merge
    from regard.heads.profile import Profile, profile_texts
    from regard.heads.roles import KnownHeads, Role, known
    from regard.heads.studies import ablation, atlas, atlas_shard, relations

__all__ = [
    "KnownHeads", "Profile", "Role", "ablation", "atlas", "atlas_shard", "known", "merge", "profile_texts", "relations",
]  # fmt: skip
_HOMES = {
    "KnownHeads": "roles", "Role": "roles", "known": "roles", "merge": "atlas_folder", "Profile": "profile",
    "profile_texts": "profile",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'regard.heads' has no attribute {name!r}")
    return getattr(import_module(f"regard.heads.{_HOMES.get(name, 'studies')}"), name)


def __dir__() -> list[str]:
    return __all__
