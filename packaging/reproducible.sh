#!/bin/sh
# Sets the environment of builds that give the same bytes in any directory and at any time. Sourced by
# the scripts beside it, in the root of the project.

if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    # The time of the last commit; without git, that of the last change of the change log.
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
fi
export SOURCE_DATE_EPOCH
export LC_ALL=C.UTF-8 TZ=UTC CARGO_INCREMENTAL=0

cargo_home=${CARGO_HOME:-$HOME/.cargo}
target_directory=${CARGO_TARGET_DIR:-$PWD/target}
# The paths that compilers write into programs: of the libraries, of generated code, of the source. The
# last that fits is used.
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/usr/src/howdah \
--remap-path-prefix=$cargo_home=/usr/src/cargo --remap-path-prefix=$target_directory=/usr/src/target"
export CFLAGS="${CFLAGS:-} -ffile-prefix-map=$PWD=/usr/src/howdah \
-ffile-prefix-map=$cargo_home=/usr/src/cargo -ffile-prefix-map=$target_directory=/usr/src/target"
export CXXFLAGS="$CFLAGS"
unset cargo_home target_directory
umask 022
