"""Every control and export of the nine tabs that were here before the zoom, and where each is now.

By view, as `conftest.open_view` names it: roles and accessible names, or how they begin. `GONE` says why a control is
not there any more.
"""

from __future__ import annotations

EXPORTS = ("SVG", "PNG", "CSV", "LaTeX")

# Views that save something; the vote is shared as a card instead.
EXPORTING = (
    "Threads",
    "Small maps",
    "Map",
    "One number",
    "In context",
    "Words",
    "Output",
    "Architecture",
    "Lookup",
    "From another text",
    "Layer by layer",
)

# On the reading of a small model that writes, so that every view is there.
CONTROLS = {
    "Sentence": (("slider", "Layers that have voted"), ("button", "Set them apart"), ("listbox", "Heads")),
    "Heads": (("radio", "By layer"), ("radio", "Over two measures"), ("listbox", "Heads")),
    "Small maps": (
        ("radio", "Model"), ("radio", "Entropy"), ("radio", "Distance"), ("radio", "Sink mass"), ("radio", "Each head"),
        ("radio", "All alike"), ("radio", "With labels"), ("radio", "Dense"), ("button", "Open in Map"),
        ("button", "Open in Threads"), ("button", "Open in One number"),
    ),
    "Threads": (
        ("combobox", "Layer"), ("button", "Previous layer"), ("button", "Next layer"), ("button", "Head 0"),
        ("button", "several"), ("button", "all"), ("radio", "0 to 1"), ("radio", "Relative"), ("switch", "Set "),
        ("combobox", "Shown"), ("listbox", "looks"), ("listbox", "is looked at"),
    ),
    "Map": (
        ("combobox", "Layer"), ("button", "Head 0"), ("button", "Zoom out"), ("button", "Zoom in"),
        ("button", "Show the whole matrix"), ("radio", "Linear"), ("radio", "Log"), ("switch", "Drag chooses a region"),
        ("combobox", "Shown"),
    ),
    "One number": (
        ("combobox", "Layer"), ("button", "Head 0"), ("listbox", "Query"), ("button", "▶ Play"), ("radio", "This text"),
        ("radio", "A small example to edit"), ("slider", "Divide scores by"), ("slider", "Temperature"),
        ("radio", "On"), ("radio", "Off"), ("button", "Reset"), ("button", "Silence head 0"), ("radio", "x · W"),
        ("radio", "x · Wᵀ"),
    ),
    "Does it matter?": (("listbox", "Heads: tap to strike out"), ("combobox", "Strike out several")),
    "Without one link": (("listbox", "This word"), ("listbox", "may not look at"), ("option", "All layers")),
    "From another text": (
        ("textbox", "The other text"), ("option", "Head by head"), ("option", "Word by word"),
        ("listbox", "Answer after"),
    ),
    "Words": (
        ("combobox", "Layer"), ("button", "Head 0"), ("switch", "Set "), ("switch", "Include words"),
        ("listbox", "The text, shaded by attention received"), ("slider", "Received"), ("slider", "Entropy"),
        ("columnheader", "Distance"),
    ),
    "In context": (
        ("combobox", "Here layer"), ("combobox", "There head"), ("combobox", "Shown"),
        ("listbox", "Here: choose a word"), ("listbox", "There: choose a word"),
    ),
    "Output": (
        ("slider", "Temperature"), ("slider", "Top k"), ("slider", "Top p"), ("button", "Reset"),
        ("listbox", "The text: choose a position"),
    ),
    "Architecture": (("listbox", "Layer"), ("listbox", "Head"), ("button", "Compute one number ")),
    "Layer by layer": (("listbox", "After"), ("region", "The most likely next token after each layer")),
}  # fmt: skip

# Beside the views: in the header, its menu, and on pages that read texts.
EVERYWHERE = (("tablist", "Zoom"), ("button", "Adjust"), ("button", "Theme: "), ("button", "Skip to the view"))

GONE = {
    "Tour": "levels, their sentences and Play lead through the same stops, on the reader's own text and model",
    "All views": "all levels are in the header of the first screen; views beside the zoom are under More",
}
