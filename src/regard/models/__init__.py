"""Real models: where they are downloaded from, their files, tokenisers and architectures."""
