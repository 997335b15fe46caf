"""What each head of a model does: statistics, patterns, relations, examples and ablation, over any corpus."""

from typing import TYPE_CHECKING

from regard.lazy_names import lazy_names

if TYPE_CHECKING:
    from regard.heads.atlas_folder import merge
    from regard.heads.profile import Profile, profile_texts
    from regard.heads.pruned_checkpoint import PrunedCheckpoint, prune
    from regard.heads.roles import KnownHeads, Role, known
    from regard.heads.studies import ablation, atlas, atlas_shard, relations

__all__ = [
    "KnownHeads", "Profile", "PrunedCheckpoint", "Role", "ablation", "atlas", "atlas_shard", "known", "merge",
    "profile_texts", "prune", "relations",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "atlas_folder": ("merge",), "profile": ("Profile", "profile_texts"),
            "pruned_checkpoint": ("PrunedCheckpoint", "prune"),
            "roles": ("KnownHeads", "Role", "known"),
            "studies": ("ablation", "atlas", "atlas_shard", "relations"),
        },
    )  # fmt: skip
