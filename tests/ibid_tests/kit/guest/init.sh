#!/bin/bash
# The first process of the guest of kit/guest.py: starts the device manager, the network and the initiator, then runs
# commands that arrive on the port `control`. A command is a line in base64; its answer is its output and a last line
# `@@end STATUS`.
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /tmp
mkdir -p /run/lock/iscsi /dev/pts /dev/shm
mount -t devpts pts /dev/pts

/usr/lib/systemd/systemd-udevd --daemon
ip link set lo up
for module in virtio_net virtio_console sd_mod sg iscsi_tcp dm-multipath dm-queue-length dm-service-time scsi_dh_alua; do
    modprobe -q $module || echo "@@note no module $module"
done
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
echo InitiatorName=iqn.2026-11.test:guest >/etc/iscsi/initiatorname.iscsi
iscsid

mkdir /run/ports
for port in /sys/class/virtio-ports/*; do
    ln -s "/dev/${port##*/}" "/run/ports/$(cat "$port/name")"
done
exec 3<>/run/ports/control
echo "@@ready $(cut -d' ' -f1 /proc/uptime) $(uname -r)" >&3
while IFS= read -r line <&3; do
    bash -c "$(base64 -d <<<"$line")" </dev/null >/tmp/said 2>&1 3<&-
    status=$?
    cat /tmp/said >&3
    printf '\n@@end %s\n' $status >&3
done
echo o >/proc/sysrq-trigger
sleep 10
