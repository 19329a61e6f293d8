#!/usr/bin/env bash
# scripts/setup.sh PURPOSE...   prepares this machine: build, package, console, demo, test, bench, reduction, lint, book, fresh.
#
# It installs only missing tools and prints their names. If nothing is missing, it prints nothing and ends in
# milliseconds. Debian and Ubuntu packages come from apt-get (with sudo unless root), Rust from rustup, ruff and
# py-pure-client, Ansible and Node from PyPI, the libraries of the web console from npm.
# SETUP_DRY_RUN=1 prints what is missing and exits with 1 if anything is.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[2msetup:\033[0m %s\n' "$*" | if [ -n "${NO_COLOR:-}" ] || [ ! -t 1 ]; then sed 's/\x1b\[[0-9]*m//g'; else cat; fi; }
fail() { printf 'setup: %s\n' "$1" >&2; shift; for hint in "$@"; do printf 'hint: %s\n' "$hint" >&2; done; exit 1; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }

missing=()
need() { have "$1" || missing+=("$2"); }
# A python3 without its standard library (python3-minimal) is not enough.
need_python() { python3 -c 'import json, ssl, urllib.request' 2>/dev/null || missing+=(python3); }

# The commands (or files) that each purpose needs, and their packages.
need_build() {
    need cc build-essential
    need git git
}
need_demo() {
    need_build
    need_python
}
need_test() {
    need_demo
    need iscsi-test-cu libiscsi-bin
    need qemu-img qemu-utils
    compgen -G '/usr/lib/*/qemu/block-iscsi.so' >/dev/null || missing+=(qemu-block-extra)
    # The guest of the suite 'multipath'. Without it, the suite is skipped.
    [ "$(uname -m)" != x86_64 ] || need qemu-system-x86_64 qemu-system-x86
    need strace strace
    need ip iproute2
    need dpkg-deb dpkg
    need mke2fs e2fsprogs
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    need fio fio
}
# Node comes from PyPI, in its own environment below target/, if the machine has none that is recent enough.
need_console() {
    node_is_ready && return
    need_python
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
}
# ruff comes from PyPI, in its own environment below target/, because distributions have old versions or none.
need_lint() {
    need_build
    need_python
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
}
need_reduction() {
    need_test
    need zstd zstd
    need dpkg-deb dpkg
}
need_package() {
    need_build
    need dpkg-deb dpkg
}
need_book() { need_build; need_python; }
need_bench() { need_demo; need dpkg-deb dpkg; }
need_fresh() { need_python; need debootstrap debootstrap; need git git; }

# Rust: any recent cargo, otherwise the toolchain of rust-toolchain.toml through rustup.
toolchain=$(sed -n 's/^channel *= *"\(.*\)"/\1/p' rust-toolchain.toml)
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
rust_is_ready() {
    if have rustup; then
        rustup toolchain list 2>/dev/null | grep -q "^$toolchain" &&
            rustup component list --toolchain "$toolchain" --installed 2>/dev/null | grep -q '^clippy'
        return
    fi
    have cargo || return 1
    local found; found=$(cargo --version | awk '{print $2}')
    [ "$(printf '%s\n%s\n' "$toolchain" "${found%%-*}" | sort -V | head -n 1)" = "$toolchain" ]
}

install_packages() {
    have apt-get || fail "this machine lacks: $*" "these are the names of Debian's packages; install their like and run again"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        have sudo || fail "this machine lacks: $* (and sudo)" "as root: apt-get install $*"
        # Asks for the password where there is a terminal.
        { [ -t 0 ] && sudo -v; } || sudo -n -v 2>/dev/null ||
            fail "this machine lacks: $* (and sudo refuses $(id -un))" "as root: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing $*"
    local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Install-Suggests=0)
    # The package lists are fetched only if the packages cannot be installed without.
    "${as_root[@]}" "${quiet[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 && return
    say "fetching the package lists"
    "${as_root[@]}" "${quiet[@]}" update >/dev/null || true
    "${as_root[@]}" "${quiet[@]}" install -y --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install: $*" "on Ubuntu some of them are in 'universe': add-apt-repository universe"
}

install_rust() {
    if ! have rustup; then
        have curl || install_packages curl ca-certificates
        say "installing rustup"
        curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh | sh -s -- -y -q --no-modify-path --default-toolchain none >/dev/null ||
            fail "rustup could not be installed" "Rust $toolchain or newer, however it comes, is enough: https://www.rust-lang.org/tools/install"
    fi
    say "installing Rust $toolchain"
    rustup toolchain install "$toolchain" --profile minimal --component clippy --component rustfmt >/dev/null ||
        fail "rustup could not install Rust $toolchain" "look at: rustup toolchain install $toolchain"
}

ruff_version=$(sed -n 's/^ruff==//p' tests/requirements.txt)
ruff_environment=${CARGO_TARGET_DIR:-target}/ruff
ruff_is_ready() { [ "$("$ruff_environment/bin/ruff" --version 2>/dev/null)" = "ruff $ruff_version" ]; }
install_ruff() {
    say "installing ruff $ruff_version"
    rm -rf "$ruff_environment"
    python3 -m venv "$ruff_environment" &&
        "$ruff_environment/bin/pip" install --quiet --disable-pip-version-check "ruff==$ruff_version" ||
        fail "ruff $ruff_version could not be installed in $ruff_environment" "try: pip install ruff==$ruff_version"
}

# Clients of management software, in an environment of their own below target/. Without them, the suite that
# uses them is skipped.
clients_version=$(sed -n 's/^py-pure-client==//p' tests/requirements.txt)
old_version=$(sed -n 's/^purestorage==//p' tests/requirements.txt)
clients_environment=${CARGO_TARGET_DIR:-target}/clients
clients_are_ready() { compgen -G "$clients_environment/lib/python3*/site-packages/py_pure_client-$clients_version.dist-info" >/dev/null &&
    compgen -G "$clients_environment/lib/python3*/site-packages/purestorage-$old_version*-info" >/dev/null; }
install_clients() {
    say "installing py-pure-client $clients_version and purestorage $old_version"
    rm -rf "$clients_environment"
    python3 -m venv "$clients_environment" &&
        "$clients_environment/bin/pip" install --quiet --disable-pip-version-check "py-pure-client==$clients_version" \
        "purestorage==$old_version" setuptools ||
        say "py-pure-client $clients_version could not be installed; the suite 'management' will be skipped"
}

# The checker of the OpenAPI document, in an environment of its own.
schemathesis_version=$(sed -n 's/^schemathesis==//p' tests/requirements.txt)
schemathesis_environment=${CARGO_TARGET_DIR:-target}/schemathesis
schemathesis_is_ready() { compgen -G "$schemathesis_environment/lib/python3*/site-packages/schemathesis-$schemathesis_version.dist-info" >/dev/null; }
install_schemathesis() {
    say "installing schemathesis $schemathesis_version"
    rm -rf "$schemathesis_environment"
    python3 -m venv "$schemathesis_environment" &&
        "$schemathesis_environment/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$schemathesis_version" ||
        say "schemathesis $schemathesis_version could not be installed; its test will be skipped"
}

# Ansible's core, and one collection out of the package with all collections. That package asks for a newer Python
# than the collection needs.
core_version=$(sed -n 's/^ansible-core==//p' tests/requirements.txt)
collections_version=$(sed -n 's/^ansible==//p' tests/requirements.txt)
collections=$clients_environment/collections-$collections_version
ansible_is_ready() { [ -d "$collections/ansible_collections/purestorage/flasharray" ]; }
install_ansible() {
    say "installing ansible-core $core_version and the collection of ansible $collections_version"
    local pip=("$clients_environment/bin/pip" --quiet --disable-pip-version-check) folder
    folder=$(mktemp -d) &&
        "${pip[@]}" install "ansible-core==$core_version" &&
        "${pip[@]}" download --no-deps --only-binary=:all: --python-version 3.12 --dest "$folder" "ansible==$collections_version" &&
        python3 - "$folder" "$collections" <<'END' || say "Ansible could not be installed; its tests will be skipped"
import pathlib, sys, zipfile
wheel, = pathlib.Path(sys.argv[1]).glob("ansible-*.whl")
with zipfile.ZipFile(wheel) as archive:
    wanted = [name for name in archive.namelist() if name.startswith("ansible_collections/purestorage/flasharray/")]
    archive.extractall(sys.argv[2], wanted)
END
    rm -rf "$folder"
}

# Ubuntu has the browser only as a snap. Without one, the suite that uses it is skipped.
browser_is_ready() { have chromium || have chromium-browser || have google-chrome; }
install_browser() {
    (install_packages chromium) 2>/dev/null && browser_is_ready ||
        say "chromium could not be installed; the suite 'console' will be skipped"
}

node_environment=$(realpath -m "${CARGO_TARGET_DIR:-target}")/node
node_is_ready() {
    local found; found=$(PATH="$node_environment/bin:$PATH" node --version 2>/dev/null) || return 1
    [ "$(printf '%s\n%s\n' v20.19.0 "$found" | sort -V | head -n 1)" = v20.19.0 ] && PATH="$node_environment/bin:$PATH" have npm
}
install_node() {
    say "installing Node"
    rm -rf "$node_environment"
    python3 -m venv "$node_environment" &&
        "$node_environment/bin/pip" install --quiet --disable-pip-version-check -r web/requirements.txt ||
        fail "Node could not be installed in $node_environment" "any Node of version 20.19 or later on the PATH is enough: https://nodejs.org"
}
libraries_are_ready() { [ web/node_modules/.package-lock.json -nt web/package-lock.json ]; }
# Not `npm ci`, which fails if a registry lacks the optional packages of other platforms.
install_libraries() {
    say "installing the libraries of the web console"
    (cd web && PATH="$node_environment/bin:$PATH" npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) ||
        fail "the libraries of the web console could not be installed" "look at: cd web && npm install --no-save --ignore-scripts"
}

# cargo-deb comes from crates.io, below target/.
cargo_deb_version=3.8.0
cargo_deb=${CARGO_TARGET_DIR:-target}/cargo-deb
cargo_deb_is_ready() { [ "$("$cargo_deb/bin/cargo-deb" --version 2>/dev/null)" = "$cargo_deb_version" ]; }
install_cargo_deb() {
    say "installing cargo-deb $cargo_deb_version"
    cargo install --quiet --locked --version "$cargo_deb_version" --root "$cargo_deb" cargo-deb ||
        fail "cargo-deb $cargo_deb_version could not be installed in $cargo_deb" "look at: cargo install cargo-deb"
}

# mdBook likewise.
mdbook_version=0.5.4
mdbook=${CARGO_TARGET_DIR:-target}/mdbook
mdbook_is_ready() { [ "$("$mdbook/bin/mdbook" --version 2>/dev/null)" = "mdbook v$mdbook_version" ]; }
install_mdbook() {
    say "installing mdbook $mdbook_version"
    cargo install --quiet --locked --no-default-features --features search --version "$mdbook_version" --root "$mdbook" mdbook ||
        fail "mdbook $mdbook_version could not be installed in $mdbook" "look at: cargo install mdbook"
}

# A build without enough space fails after minutes; this says so before it begins.
needed_gib=6
check_space() {
    local directory=${CARGO_TARGET_DIR:-target} free
    [ -d "$directory" ] && return # what is built needs little more
    directory=$(dirname "$directory")
    free=$(df --output=avail -BG "$directory" 2>/dev/null | tail -n 1 | tr -dc 0-9)
    [ -z "$free" ] || [ "$free" -ge $needed_gib ] ||
        fail "a build needs $needed_gib GiB in $(realpath "$directory"); $free GiB are free" \
            "free some space, or set CARGO_TARGET_DIR to a directory on another file system"
}

[ $# -gt 0 ] || set -- build
for what in "$@"; do
    case $what in
        build | package | console | demo | test | bench | reduction | lint | book | fresh) "need_$what" ;;
        *) fail "no such purpose: $what" "scripts/setup.sh build|package|console|demo|test|bench|reduction|lint|book|fresh" ;;
    esac
done
check_space
if [ ${#missing[@]} -gt 0 ]; then
    mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
fi

if [ -n "${SETUP_DRY_RUN:-}" ]; then
    [ ${#missing[@]} -eq 0 ] || echo "packages: ${missing[*]}"
    rust_is_ready || echo "rust: $toolchain"
    [ ${#missing[@]} -eq 0 ] && rust_is_ready
    exit
fi
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}"
rust_is_ready || install_rust
case " $* " in *" lint "*) ruff_is_ready || install_ruff ;; esac
case " $* " in *" book "*) mdbook_is_ready || install_mdbook ;; esac
case " $* " in *" package "*) cargo_deb_is_ready || install_cargo_deb ;; esac
case " $* " in *" test "*)
    clients_are_ready || install_clients
    ansible_is_ready || install_ansible
    schemathesis_is_ready || install_schemathesis
    browser_is_ready || install_browser
    ;;
esac
case " $* " in *" console "*)
    node_is_ready || install_node
    libraries_are_ready || install_libraries
    ;;
esac
