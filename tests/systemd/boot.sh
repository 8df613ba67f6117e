#!/bin/sh
# boot.sh PLACE CGROUP SEED OPT: becomes a systemd that is PID 1 of namespaces of its own (`tests/support/systemd.py` calls it, in
# a fresh mount namespace).
#
# Its root is this machine's with a layer of memory on top, which begins as SEED; what it writes is gone with it. OPT is its /opt.
# Processes, network, IPC, host name and cgroups are its own; the kernel is not, so what would change settings of the whole
# machine is kept from it.
set -eu

if [ "${STAGE:-}" != inside ]; then
    place=$1 cgroup=$2 seed=$3 opt=$4
    mount -t tmpfs -o mode=755 tmpfs "$place"
    mkdir "$place/work" "$place/root"
    cp -a "$seed" "$place/upper"
    mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" overlay "$place/root"
    mount --bind "$opt" "$place/root/opt"
    mount -o remount,ro,bind "$place/root/opt"
    echo $$ >"$cgroup/cgroup.procs" # before the cgroup namespace, whose root this becomes
    ROOT=$place/root STAGE=inside exec unshare --pid --fork --uts --ipc --net --cgroup --kill-child "$0"
fi

cd "$ROOT"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys # PID 1 itself raises fs.file-max at its start; taken away once it is up
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
pivot_root . mnt
umount -l mnt
mount --make-rshared / # a systemd in a container does not do it, and then LoadCredential= gives an empty folder without a word
exec env -i container=sandboxd-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
