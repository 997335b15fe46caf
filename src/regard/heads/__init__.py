"""What each head of a model does: statistics, patterns, relations, examples and ablation, over any corpus."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.heads.roles import KnownHeads, Role, known

__all__ = ["KnownHeads", "Role", "known"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'regard.heads' has no attribute {name!r}")
    from regard.heads import roles

    return getattr(roles, name)
