# Everything runs inside the active environment. `just` lists the recipes.

python := env_var_or_default("PYTHON", "python")
quick := "tests/core tests/formats tests/test_compressor.py tests/test_properties.py"

_default:
    @just --list --unsorted

# Before a change goes in: style, types, imports and the quickest tests. A few minutes.
check: lint types (test quick)

# Style and formatting.
lint:
    ruff check .
    ruff format --check .

# Types and layers of imports, of the product.
types:
    mypy
    lint-imports

# Tests, all by default: no network, no GPU, nothing downloaded.
test *args:
    {{ python }} -m pytest -q -n 2 -m "not long and not timing" {{ args }}

# Types, imports and tests of the lab, which has to be installed: pip install -e lab.
lab *args="lab/tests lab/src":
    mypy --config-file lab/pyproject.toml
    lint-imports --config lab/pyproject.toml
    {{ python }} -m pytest -q -n 2 -m "not long and not timing" {{ args }}

# The site, a warning being an error: build/pages, a folder for each version.
docs:
    zensical build --strict --clean
    {{ python }} docs/make_site.py build/pages

# A benchmark by name, of the product or of the lab: just bench replay --steps
bench name *args:
    {{ python }} -m {{ if path_exists("benchmarks/" + name + ".py") == "true" { "" } else { "lab." } }}benchmarks.{{ name }} {{ args }}

# A suite of the nightly run: properties, examples, mutation, promises, coverage, enumerate, forge, timing, agents, soak, integrations.
nightly suite *args:
    @just _nightly-{{ suite }} {{ args }}

# Lines, words and files of the repository; --ref TAG prints a commit beside it.
sizes *args:
    {{ python }} -m benchmarks.sizes {{ args }}

# Wheels and sdists of both distributions in dist/, and the tests of what is in them.
release:
    rm -rf dist
    {{ python }} -m build --outdir dist
    {{ python }} -m build --outdir dist lab
    {{ python }} -m pytest -q tests/release

# 100,000 histories of each format, from a seed that it draws and prints; --seed N repeats them.
_nightly-properties *args:
    {{ python }} -m benchmarks.properties --processes 2 {{ args }}

# New examples for every property. Hypothesis repeats the same ones where it sees the variable CI.
_nightly-examples seed=`python3 -c "import secrets; print(secrets.randbits(32))"`:
    env -u CI AGORA_EXAMPLES=500 {{ python }} -m pytest -q -n 2 -m "not long and not timing" --hypothesis-profile=default --hypothesis-seed={{ seed }} tests

# 300 mutants of core and formats, from a seed that it draws and prints; fails below 85 % killed.
_nightly-mutation *args:
    env -u CI AGORA_EXAMPLES=15 {{ python }} -m benchmarks.mutation {{ args }}

# The share of the product's lines that the default tests run: reported, not demanded.
_nightly-coverage:
    {{ python }} -m coverage run --source=src/agora -m pytest -q -n 0 -m "not long and not timing" tests
    {{ python }} -m coverage report --sort=cover

# The line that keeps each promise of README and SECURITY is taken out, and its test has to fail.
_nightly-promises *args:
    {{ python }} -m benchmarks.promises {{ args }}

# Every legal history of up to seven messages, under every budget.
_nightly-enumerate:
    {{ python }} -m pytest -q tests/test_enumeration.py -m long

# Forged markers, roles and special tokens inside tool output.
_nightly-forge:
    {{ python }} -m pytest -q tests/test_forgery.py -m long

# How time grows with the size of a history; on a quiet machine.
_nightly-timing:
    {{ python }} -m pytest -q tests -m timing

# Real coding agents in `agora wrap` before a fake provider; installs them.
_nightly-agents *args:
    {{ python }} -m benchmarks.agents {{ args }}

# Envoy and the filter under load for an hour, the second half beside three very long conversations.
_nightly-soak *args="--out benchmarks/results/soak.json":
    {{ python }} -m benchmarks.gateway_soak --minutes 60 {{ args }}

# Each framework in an environment of its own, oldest and newest release.
_nightly-integrations *args="--check":
    {{ python }} -m tests.integrations.environments {{ args }}
