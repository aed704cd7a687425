"""Start of a worker: the way of its key, a fork of a process with all imports made, and another interpreter."""
