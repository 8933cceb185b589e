#!/bin/sh
# Boots systemd as the first process of a container: this machine's files with an overlay in memory.
#
# usage: unshare --mount --pid --fork --uts --ipc --cgroup boot_systemd.sh DIRECTORY PROGRAMS
#
# DIRECTORY is empty; PROGRAMS is the directory of howdah and howdah-php. The network is the machine's.
set -eu

directory=$1 programs=$2
root=$directory/root
mkdir "$directory/changes" "$root"
mount -t tmpfs -o mode=755 tmpfs "$directory/changes"
mkdir "$directory/changes/upper" "$directory/changes/work"
options=lowerdir=/,upperdir=$directory/changes/upper,workdir=$directory/changes/work
mount -t overlay -o "$options" overlay "$root"

mount -t proc proc "$root/proc"
# Its settings would be those of the machine.
for name in sys sysrq-trigger; do
    [ -e "$root/proc/$name" ] || continue
    mount --bind "$root/proc/$name" "$root/proc/$name"
    mount -o remount,bind,ro "$root/proc/$name"
done
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    : >"$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"

# The directory may be in another file system, or below one that is hidden now.
mkdir -p "$root$programs"
mount --bind "$programs" "$root$programs"
ln -sf "$programs/howdah" "$root/usr/bin/howdah"
: >"$root/etc/machine-id"
: >"$root/etc/fstab"

cd "$root"
mkdir -p .old
pivot_root . .old
umount -l .old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target
