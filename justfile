# Everything runs inside the active environment; set PYTHON to use another interpreter.
# `just` lists what is for every day. Names that stand nowhere in that list still work.

python := env_var_or_default("PYTHON", "python")
typed := "src/agora/core src/agora/adapters src/agora/scorers src/agora/compressor.py src/agora/errors.py src/agora/replay src/agora/pages src/agora/testing tests/core tests/adapters tests/scorers tests/docs tests/release"
quick := "tests/core tests/adapters tests/scorers --ignore=tests/scorers/test_embedding.py tests/test_imports.py tests/test_shape.py tests/docs/test_links.py tests/docs/test_made_pages.py tests/docs/test_first_contribution.py tests/release/test_locks.py tests/test_by_price.py tests/test_compressor.py tests/test_errors.py tests/test_package.py tests/test_properties.py"
# What alone reaches every branch of core, adapters and compressor.
traced := "tests/core tests/adapters tests/gateway/test_recall.py tests/test_bound_thinking.py tests/test_by_price.py tests/test_compressor.py tests/test_edits.py tests/test_errors.py tests/test_forms.py tests/test_rows.py tests/test_settings.py tests/test_text_agents.py"

[private]
default:
    @{{ just_executable() }} --justfile {{ justfile() }} --list --unsorted

# What to run before a change goes in: style, types, layers, quick tests. Under three minutes.
check: lint typed imports quick

# Style and formatting.
lint:
    {{ python }} -m ruff check .
    {{ python }} -m ruff format --check .

# Every test that takes no minutes of its own: no network, no GPU, nothing downloaded.
test *args:
    {{ python }} -m pytest -m "not long" {{ args }}

# The suites that take minutes, by name: properties, enumerate, forge, integrations, container.
long suite *args:
    @{{ just_executable() }} --justfile {{ justfile() }} {{ if suite == "properties" { "properties-long" } else { suite } }} {{ args }}

# Branch coverage; core, adapters and the compressor must be at 100 %.
coverage:
    {{ python }} -m pytest -m "not long and not timing" {{ traced }} --cov --cov-report=
    {{ python }} -m coverage report --include="*/agora/core/*,*/agora/adapters/*,*/agora/compressor.py" --fail-under=100

# A benchmark by name: agents, bill, billed, coverage, envoy, gateway, gateway_hostile, gateway_sessions, replay, shadow, time; of the lab labelling, peers, scorer.
bench name *args:
    {{ python }} -m {{ if path_exists("lab/benchmarks/" + name + ".py") == "true" { "lab." } else { "" } }}benchmarks.{{ name }} {{ args }}

# The site, a warning being an error, as it is served: build/pages, a folder for each version.
docs:
    zensical build --strict --clean
    {{ python }} docs/make_site.py build/pages

# Pages and figures that are made, not written.
docs-made:
    {{ python }} docs/make_cli.py
    {{ python }} docs/make_results.py
    {{ python }} docs/images/make_concepts.py
    {{ python }} docs/images/make_house.py
    {{ python }} docs/images/make_badges.py
    {{ python }} docs/images/make_terminal.py
    {{ python }} docs/images/make_terminal_served.py

# Each framework in an environment of its own, newest and oldest; writes docs/integrations.
integrations *args:
    {{ python }} -m tests.integrations.environments {{ args }}

# Wheels and sdists of both distributions in dist/, built twice and compared, with a list of parts; then tried in clean environments.
release *only: _build _parts
    {{ python }} -m tests.release.environments dist {{ if only == "" { "" } else { "--only " + only } }}

# --- Parts of the above, and names that the documentation uses.

# Types, strict, of everything: as CI has it, with every extra of both distributions installed.
[private]
types:
    {{ python }} -m mypy
    {{ python }} -m mypy --config-file lab/pyproject.toml

# The tests of the lab, which has to be installed: pip install -e lab.
[private]
test-lab *args:
    {{ python }} -m pytest -m "not long" {{ if args == "" { "lab/tests lab/src" } else { args } }}

[private]
imports-lab:
    {{ python }} -c "from importlinter.cli import lint_imports_command; lint_imports_command()" --config lab/pyproject.toml

# Types of what stands on the group `dev` alone.
[private]
typed:
    {{ python }} -m mypy {{ typed }}

[private]
imports:
    {{ python }} -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

[private]
quick *args:
    AGORA_EXAMPLES="${AGORA_EXAMPLES:-100}" {{ python }} -m pytest -q -n 2 -m "not long and not timing" {{ quick }} {{ args }}

# The eight properties for each format, at the size CI runs.
[private]
properties examples="2000":
    AGORA_EXAMPLES={{ examples }} {{ python }} -m pytest tests/test_properties.py -m "not long"

# The same properties on seeded histories, 100,000 per format; goes on where it was stopped.
[private]
properties-long *args:
    {{ python }} -m benchmarks.properties --processes 2 --out docs/results/properties.json {{ args }}

# Every legal history of up to seven messages, under every budget.
[private]
enumerate:
    {{ python }} -m pytest tests/test_enumeration.py -m "long or not long"

# Forged markers, roles and special tokens inside tool output.
[private]
forge:
    {{ python }} -m pytest tests/test_forgery.py -m "long or not long"

# The Containerfile's steps in a clean root, and the gateway from there; needs root or user namespaces.
[private]
container:
    {{ python }} -m pytest tests/release/test_container.py -m "long or not long"

[private]
bench-coverage *args: (bench "coverage" args)

[private]
bench-bill *args: (bench "bill" args)

[private]
bench-replay *args: (bench "replay" args)

[private]
bench-time *args: (bench "time" args)

[private]
bench-labelling *args: (bench "labelling" args)

[private]
gateway-goals *args: (bench "gateway" args)

# Real coding agents by `agora wrap`, in front of a fake provider; installs them; not for CI.
[private]
agents *args: (bench "agents" "--out docs/results/wrap.json --page docs/guides/coding-agents.md" args)

# The hash-pinned locks: what develops and checks, and what builds a release.
[private]
locks:
    uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --extra cli --extra testing --extra gateway --extra telemetry --group dev --group oracles --group docs --upgrade --output-file locks/dev.txt
    uv pip compile --quiet locks/release.in --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --upgrade --output-file locks/release.txt

# Dated by the last commit, so that the same commit gives the same bytes.
_build:
    rm -rf dist build/again
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) {{ python }} -m build --no-isolation --outdir dist
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) {{ python }} -m build --no-isolation --outdir dist lab
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) {{ python }} -m build --no-isolation --outdir build/again
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) {{ python }} -m build --no-isolation --outdir build/again lab
    cd dist && sha256sum -- *.whl *.tar.gz > ../build/sums
    cd build/again && sha256sum --check ../sums

# The base has no parts; what the gateway's image holds has some.
_parts:
    rm -rf build/parts build/parts-gateway
    {{ python }} -m venv --without-pip build/parts
    {{ python }} -m venv --without-pip build/parts-gateway
    {{ python }} -m pip --python build/parts install --quiet dist/agora_context-*.whl
    {{ python }} -m pip --python build/parts-gateway install --quiet "$(echo dist/agora_context-*.whl)[cli,gateway,telemetry]"
    cyclonedx-py environment build/parts --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file build/agora-context.cdx.json
    cyclonedx-py environment build/parts-gateway --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file build/agora-context-gateway.cdx.json
