#!/bin/sh
# Rewrite the lock files in requirements/ from pyproject.toml: exact versions with hashes, for every
# platform and every Python that Carnac runs on, naming no index. Pins that still fit are kept;
# `make lock UPGRADE=1` takes the newest versions that the bounds in pyproject.toml allow.
set -eu
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
if [ ! -x "$uv" ]; then
  echo "installing uv, which resolves the lock files"
  .venv/bin/python -m pip install --quiet --require-hashes -r requirements/lock.txt
fi
unset PIP_FIND_LINKS UV_FIND_LINKS UV_INDEX_URL UV_EXTRA_INDEX_URL 2>/dev/null || :

compile() { # compile NAME SOURCE... : resolve the sources into requirements/NAME.txt
  name=$1
  shift
  echo "resolving requirements/$name.txt"
  "$uv" pip compile "$@" --output-file "requirements/$name.txt" \
    --universal --python-version 3.11 --generate-hashes --quiet ${UPGRADE:+--upgrade} \
    --no-config --no-header --no-emit-index-url --no-emit-find-links
}

# dev first: the other files are its subsets, so that every version that users get was tested
compile dev pyproject.toml --extra dev ${CONSTRAINTS:+--constraints "$CONSTRAINTS"}
compile demo pyproject.toml --extra demo --constraints requirements/dev.txt
compile bench pyproject.toml --extra bench --constraints requirements/dev.txt
compile build requirements/build.in --constraints requirements/dev.txt
compile java requirements/java.in
compile lock requirements/lock.in
if grep -n -i -E 'https?://|file://|^--|find-links' requirements/*.txt; then
  echo "a lock file names an index or a path of this machine" >&2
  exit 1
fi
echo "done: $(grep -c '==' requirements/dev.txt) packages pinned for development"
