#!/bin/sh
# Fuzzes parsers: tools/fuzz.sh [TARGET...], without a name every target, one after the other.
# Each runs for FUZZ_SECONDS (60). What is missing is installed: cargo-fuzz into .build/tools, the
# nightly compiler through rustup. Fails if an input was found that breaks a target's promise; the
# input is then in fuzz/artifacts/TARGET.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
seconds=${FUZZ_SECONDS:-60}
bin=$root/.build/tools/bin

command -v c++ >/dev/null || tools/require.sh g++
if ! cargo +nightly --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal
fi
PATH=$bin:$PATH
if ! command -v cargo-fuzz >/dev/null; then
    cargo install --quiet --locked cargo-fuzz --root "$root/.build/tools"
fi

# What is fuzzed has no unsafe code, so the address sanitizer would only cost speed.
sanitizer=${FUZZ_SANITIZER:-none}
cargo +nightly fuzz build --sanitizer "$sanitizer"

# shellcheck disable=SC2046 # a list of names
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# fuzz TARGET
fuzz() {
    target=$1
    set -- -max_total_time="$seconds" -timeout=20 -print_final_stats=1
    dictionary=fuzz/dictionaries/${target%%_*}.dict
    [ ! -e "$dictionary" ] || set -- "$@" -dict="$dictionary"
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run --sanitizer "$sanitizer" "$target" \
        "fuzz/corpus/$target" "fuzz/seeds/$target" -- "$@" >"$log" 2>&1
}

broken=
for name; do
    if fuzz "$name"; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "$name: nothing found in $runs runs"
    else
        tail -n 40 "$log" >&2
        broken="$broken $name"
    fi
done
if [ -n "$broken" ]; then
    echo "Found something in:$broken" >&2
    echo "Make each finding a test beside the code, fix it, and put the input into fuzz/seeds/." >&2
    exit 1
fi
