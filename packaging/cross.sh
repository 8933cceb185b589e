# Sets the environment of builds for another architecture. Sourced by packaging/deb; $architecture is Debian's name of it
# (arm64), $suite the release of Debian.
# shellcheck shell=sh disable=SC2154

case $architecture in
    arm64) triple=aarch64-unknown-linux-gnu gnu=aarch64-linux-gnu emulator=qemu-aarch64-static ;;
    *) echo "$0: nothing is known about the architecture \"$architecture\"; it can be arm64" >&2; exit 1 ;;
esac
for program in "$gnu-gcc" "$gnu-g++" "$emulator" mmdebstrap; do
    command -v "$program" >/dev/null || {
        echo "$0: there is no $program; for $architecture install gcc-$gnu, g++-$gnu, qemu-user-static and mmdebstrap" >&2
        exit 1
    }
done
rustup target add "$triple" >/dev/null 2>&1 || {
    echo "$0: \`rustup target add $triple\` failed: the standard library of Rust for $architecture is needed" >&2
    exit 1
}
sysroot=$(packaging/build_root.py --sysroot "$architecture" "$suite")
php=$(packaging/build_root.py --php "$suite")
export CARGO_BUILD_TARGET="$triple"
name=$(echo "$triple" | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${name}_LINKER=$gnu-gcc"
name=$(echo "$triple" | tr - _)
export "CC_$name=$gnu-gcc" "CXX_$name=$gnu-g++" "AR_$name=$gnu-ar"
# The paths of this php-config, a shell script, are in the other system.
export PHP="$sysroot/usr/bin/php-config$php" PHP_SYSROOT="$sysroot"
export HOWDAH_RUNNER="$emulator -L $sysroot"
unset name
