"""Figures as Vega-Lite charts: drawn in the page with hover, filter and zoom, or written as SVG and PNG."""
