# Everything runs inside the active environment; set PYTHON to use another interpreter.

python := env_var_or_default("PYTHON", "python")

# What must hold before a change goes in.
check: lint types imports test

# Style and formatting.
lint:
    {{ python }} -m ruff check .
    {{ python }} -m ruff format --check .

# Types, strict, for the package, its tests and its benchmarks.
types:
    {{ python }} -m mypy

# The layer rule: imports point one way.
imports:
    {{ python }} -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

# The default run: no network, no GPU, nothing downloaded.
test *args:
    {{ python }} -m pytest -m "not long" {{ args }}

# The eight properties for each format, at the size CI runs.
properties examples="2000":
    AGORA_EXAMPLES={{ examples }} {{ python }} -m pytest tests/test_properties.py -m "not long"

# The same properties, many more examples.
properties-long examples="100000":
    AGORA_EXAMPLES={{ examples }} {{ python }} -m pytest tests/test_properties.py -n 2

# Every legal history of up to seven messages, under every budget.
enumerate:
    {{ python }} -m pytest tests/test_enumeration.py -m "long or not long"

# Forged markers, roles and special tokens inside tool output.
forge:
    {{ python }} -m pytest tests/test_forgery.py -m "long or not long"

# Are the identifiers that the next action needs still in the prompt?
bench-coverage *args:
    {{ python }} -m benchmarks.coverage {{ args }}

# The bill under each price sheet, with the prefix cache simulated.
bench-bill *args:
    {{ python }} -m benchmarks.bill {{ args }}

# A gigabyte of generated logs: memory, and throughput against just parsing them.
bench-replay *args:
    {{ python }} -m benchmarks.replay {{ args }}

# Time against size, and against json.loads of the same bytes.
bench-time *args:
    {{ python }} -m benchmarks.time {{ args }}

# Branch coverage; core, adapters and the compressor must be at 100 %.
coverage:
    {{ python }} -m pytest -m "not long and not timing" --cov --cov-report=
    {{ python }} -m coverage report --include="*/agora/core/*,*/agora/adapters/*,*/agora/compressor.py" --fail-under=100

# What the gateway promises, figure by figure; `--quick` for smaller sizes.
gateway-goals *args:
    {{ python }} -m benchmarks.gateway {{ args }}

# Labels on Ray: exactly once under kills, calls a second against a bare client, growth.
bench-labelling *args:
    {{ python }} -m benchmarks.labelling {{ args }}

# The site, a warning being an error.
docs:
    zensical build --strict --clean

# Pages and figures that are made, not written.
docs-made:
    {{ python }} docs/make_cli.py
    {{ python }} docs/make_results.py
    {{ python }} docs/images/make_concepts.py

# Each framework in an environment of its own, newest and oldest; writes docs/integrations.
integrations *args:
    {{ python }} -m tests.integrations.environments {{ args }}
