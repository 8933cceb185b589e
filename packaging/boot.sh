#!/bin/sh
# Starts a machine for tests over a root file system: boot.sh ROOT WORKDIR INIT...
# Called by machine.py in new namespaces. Changes go to memory and end with the machine; ROOT stays as
# it is. INIT is systemd, or a program that waits.
set -eu

lower=$1 work=$2
shift 2
root=$work/root
mkdir -p "$work/data" "$root"
mount -t tmpfs -o mode=755 tmpfs "$work/data"
mkdir "$work/data/upper" "$work/data/work"
mount -t overlay -o "lowerdir=$lower,upperdir=$work/data/upper,workdir=$work/data/work" overlay "$root"

mount -t proc proc "$root/proc"
# Settings of the kernel belong to the real machine.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
if [ -e "$root/proc/sysrq-trigger" ]; then
    mount --bind "$root/proc/sysrq-trigger" "$root/proc/sysrq-trigger"
    mount -o remount,bind,ro "$root/proc/sysrq-trigger"
fi
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 none "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
: >"$root/etc/machine-id"
ip link set lo up

cd "$root"
mkdir .old
pivot_root . .old
umount -l /.old
rmdir /.old
exec env -i container=test PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
