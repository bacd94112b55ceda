"""Report: JSON in, a page, Markdown or CSV out. No torch."""
