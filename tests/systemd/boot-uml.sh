#!/bin/sh
# boot-uml.sh PLACE SEED OPT: boots a User-Mode-Linux, a kernel of its own as an ordinary process, on this machine's files.
#
# As boot.sh, for what that one cannot have: its cgroup v2 has the controllers cpu, memory and pids, which a machine whose
# controllers are bound to v1 gives to no namespace. It ends by powering off; its console is our standard output.
set -eu
place=$1 seed=$2 opt=$3
mount -t tmpfs -o mode=755 tmpfs "$place"
mkdir "$place/work" "$place/root" "$place/tmp"
cp -a "$seed" "$place/upper"
mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" overlay "$place/root"
mount --bind "$opt" "$place/root/opt"
TMPDIR=$place/tmp exec linux.uml mem=2G root=none rootfstype=hostfs "rootflags=$place/root" rw con=null con0=fd:0,fd:1 panic=-1 \
    systemd.unified_cgroup_hierarchy=1 systemd.unit=multi-user.target systemd.show_status=no quiet
