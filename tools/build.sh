#!/bin/sh
# Builds howdah, and a howdah-php for each version of PHP that tools/php.sh chooses, named after its
# version (howdah-php8.4): tools/build.sh PROFILE
# Cargo has one howdah-php: it is built again for each version, which takes seconds, because only this
# program depends on PHP. Programs of other versions are removed: they may be of an older source.
# CARGO_BUILD_TARGET is the triple of another architecture (packaging/cross.sh).
set -eu
cd "$(dirname "$0")/.."

profile=$1
case $profile in
    dev) directory=debug ;;
    *) directory=$profile ;;
esac
directory=${CARGO_TARGET_DIR:-target}/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}$directory

rm -f "$directory"/howdah-php[0-9]*
list=$(tools/php.sh list)
echo "$list" | while read -r version config; do
    # Both packages each time: alone, howdah-php has dependencies with other features.
    PHP_CONFIG=$config ${CARGO:-cargo} build --locked --profile "$profile" -p howdah -p howdah-php </dev/null
    mv "$directory/howdah-php" "$directory/howdah-php$version"
done
