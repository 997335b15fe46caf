"""What models are kept in: folders of safetensors, and GGUF files. Read with care, never unpickled."""

from regard.models.files.checkpoint import Checkpoint, open_checkpoint
from regard.models.files.weights import Weights

__all__ = ["Checkpoint", "Weights", "open_checkpoint"]
