"""Output: tables as text, Markdown, LaTeX, CSV, JSON and HTML; figures as SVG, PNG and PDF."""
