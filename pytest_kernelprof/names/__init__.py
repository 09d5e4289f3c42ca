"""Kernel names: how they are shortened, matched and what library they come from."""

from .libraries import kernel_library
from .shortening import base_name, glob, matches, shorten

__all__ = ["base_name", "glob", "kernel_library", "matches", "shorten"]
