"""One thin file per framework, each over `Compressor` and nothing else.

None is imported here: each needs its framework. The wire formats' own clients are
wrapped by `agora.wrap`.
"""
