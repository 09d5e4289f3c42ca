"""``python -m pytest_kernelprof`` is ``kernelprof``."""

import sys

from .cli import main

sys.exit(main())
