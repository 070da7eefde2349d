"""How long the first import of a process takes, in milliseconds."""

import time

start = time.perf_counter()
import tenure  # noqa: E402, F401

print((time.perf_counter() - start) * 1000)
