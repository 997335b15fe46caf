"""Files of models: folders of safetensors, and GGUF files. Every claim is checked; nothing is unpickled."""

from regard.models.files.checkpoint import Checkpoint, open_checkpoint
from regard.models.files.safetensors_file import TensorFile

__all__ = ["Checkpoint", "TensorFile", "open_checkpoint"]
