"""Real models: the store they come from, their files, their tokenisers, their architectures."""
