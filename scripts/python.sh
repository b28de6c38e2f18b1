#!/bin/sh
# Run the arguments with a Python that can set Carnac up: 3.11 or newer, able to make virtual
# environments. PYTHON=/path/to/python chooses one.
for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python /usr/bin/python3.11}; do
  if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
    >/dev/null 2>&1; then
    exec "$candidate" "$@"
  fi
done
echo "Carnac needs Python 3.11 or newer with the modules venv and ensurepip, and none was found${PYTHON:+ at PYTHON=$PYTHON}." >&2
echo "Install it (on Debian: python3.11 and python3.11-venv) or name one: make PYTHON=/path/to/python3.11" >&2
exit 1
