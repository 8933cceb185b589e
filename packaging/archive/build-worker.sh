#!/bin/sh
# Builds the program that runs PHP for one or several versions of PHP: ./build-worker.sh [PHP_CONFIG...]
#
# PHP_CONFIG is the php-config of a version (php-config in PATH). Takes Rust, a C compiler, and PHP's headers and embed
# library, and no network. The programs are worker/howdah-phpX.Y; install.sh installs those that are there.
set -eu
unset CDPATH
worker=$(cd "$(dirname "$0")/worker" && pwd)
cargo=${CARGO:-cargo}
case $cargo in
    [!/]*/*) cargo=$PWD/$cargo ;;
esac
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
    # Cargo runs it in another directory.
    case $config in
        [!/]*/*) config=$PWD/$config ;;
    esac
    # In the root directory: Cargo and rustup obey files in all directories above the one in which they run. Above an
    # archive in /tmp, every user can put such files, which name programs that the build runs.
    (cd / && PHP_CONFIG=$config CARGO_TARGET_DIR=$worker/target "$cargo" build --release --locked --offline \
        --manifest-path "$worker/Cargo.toml" --config "$worker/.cargo/config.toml")
    strip -o "$worker/howdah-php$version" "$worker/target/release/howdah-php" 2>/dev/null ||
        cp "$worker/target/release/howdah-php" "$worker/howdah-php$version"
    echo "worker/howdah-php$version: $("$worker/howdah-php$version" --version)"
done
