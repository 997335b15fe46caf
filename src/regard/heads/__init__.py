"""What each head of a model does: statistics, patterns, relations, examples and ablation, over any corpus."""
