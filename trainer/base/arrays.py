"""Array: a NumPy array of any shape and type; where it is given, the docstring says the shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
