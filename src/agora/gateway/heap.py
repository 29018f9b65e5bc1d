"""Memory that is free goes back to the system.

Bodies of megabytes come and go. With its own settings the C library keeps the blocks that they
were in, a heap for each thread: three conversations of 5 MB beside sixteen small ones took 362 MB,
and 317 with these (docs/log.md).
"""

import ctypes
from contextlib import suppress

# <malloc.h>
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE = 128 << 10
_ARENAS = 2


def give_back_large_blocks() -> bool:
    """Have large blocks given back as soon as they are free, in all of this process.

    Returns:
        Whether the C library knows of that: glibc does; others are left as they are.
    """
    with suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        options = ((_MMAP_THRESHOLD, _LARGE), (_TRIM_THRESHOLD, _LARGE), (_ARENA_MAX, _ARENAS))
        return all(set_option(option, value) for option, value in options)
    return False
