"""Sphinx: ``sphinx-build -n -W docs build/docs`` (or ``nox -s docs``) builds the pages."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "pytest-kernelprof"
author = "The pytest-kernelprof developers"
version = release = version_of("pytest-kernelprof")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
nitpicky = True
default_role = "py:obj"

# Headings are linked to as on a code host, so that the pages read the same in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # Signatures hold many keywords; types stand in the text and for type checkers.
autodoc_mock_imports = ["torch"]
napoleon_use_ivar = True  # Attributes are documented once, with their class.
napoleon_attr_annotations = False


html_theme = "furo"
html_title = "pytest-kernelprof"
html_show_copyright = False
html_static_path: list[str] = []
pygments_style = "default"
