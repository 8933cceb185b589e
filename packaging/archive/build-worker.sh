#!/bin/sh
# Builds the program that runs PHP for one or several versions of PHP: ./build-worker.sh [PHP_CONFIG...]
#
# PHP_CONFIG is the php-config of a version (php-config in PATH). Takes Rust, a C compiler, and PHP's headers and embed
# library, and no network. The programs are worker/howdah-phpX.Y; install.sh installs those that are there.
set -eu
cd "$(dirname "$0")/worker"
cargo=${CARGO:-cargo}
command -v "$cargo" >/dev/null || {
    echo "Rust is missing: install it as https://rustup.rs says, or name Cargo with CARGO=/path/to/cargo" >&2
    exit 1
}
[ $# -gt 0 ] || set -- php-config
for config in "$@"; do
    version=$("$config" --version 2>/dev/null | sed -n 's/^\([0-9]\{1,\}\.[0-9]\{1,\}\)\..*/\1/p')
    [ -n "$version" ] || {
        echo "\"$config\" is not a php-config that runs: install PHP's headers, or name its php-config" >&2
        exit 1
    }
    # Not the directory of other programs that the variable of the user names.
    PHP_CONFIG=$config CARGO_TARGET_DIR=$PWD/target "$cargo" build --release --locked --offline
    strip -o "howdah-php$version" target/release/howdah-php 2>/dev/null ||
        cp target/release/howdah-php "howdah-php$version"
    echo "worker/howdah-php$version: $("./howdah-php$version" --version)"
done
