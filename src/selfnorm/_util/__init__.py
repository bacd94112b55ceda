"""Errors, files, the console, memory and the machine: what every package may use."""
