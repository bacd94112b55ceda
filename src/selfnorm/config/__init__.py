"""Configuration: the Recipe of a run, its limits, TOML, its name and its signature. No torch."""
