"""Where a vision model attends in an image: weights of tokens as a grid of patches.

The model here is tiny and random, so that this runs anywhere; the code is that for a real one. Its position embeddings
are set to zero: patches that look alike get equal weights, and the one spot in the image stands out.
"""

import torch
from transformers import ViTConfig, ViTModel

import regard

torch.manual_seed(0)
config = ViTConfig(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40, image_size=(48, 64), patch_size=8,
    initializer_range=1.0, num_channels=1,
)  # fmt: skip
model = ViTModel(config, add_pooling_layer=False).eval()
torch.nn.init.zeros_(model.embeddings.position_embeddings)
image = torch.zeros(1, 1, 48, 64)
image[..., 16:24, 40:48] = 5  # the patch in row 2, column 5

with regard.watch(model) as seen, torch.inference_mode():
    model(pixel_values=image)
layer = seen.layers[1]
places = seen.patches(layer)  # (token, 2): row and column of each token's patch, −1 for the class token
print("tokens:", len(places), "rows and columns:", (places.max(0).values + 1).tolist())
print("class token:", places[0].tolist(), "first patch:", places[1].tolist(), "last patch:", places[-1].tolist())

# What every patch receives from all tokens, as a picture.
received = layer.attention.column_sums()[0].mean(0)  # (token,), averaged over heads
is_patch = places[:, 0] >= 0
picture = torch.zeros(6, 8)
picture[places[is_patch, 0], places[is_patch, 1]] = received[is_patch]
for row in picture:
    print(" ".join(f"{weight:5.2f}" for weight in row))
apart = (picture - picture.median()).abs()
print("the patch that stands out:", divmod(int(apart.argmax()), 8))
