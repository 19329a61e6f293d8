#!/bin/bash
# The first process of the guest: a Linux kernel in user mode, its root a host directory, mounted read-only.
#
# Kernel parameters: address=ADDR/BITS checks=FILE, and portal=ADDR:PORT iqn=NAME to log in first. Runs each section
# of FILE (`## name`, then a script), and says on the console what came of it:
#
#   @@begin NAME        then what the script prints, then        @@end RC SECONDS
set -u
export PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/tmp LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
for dir in /run /tmp /mnt /var/lib/iscsi /etc/iscsi; do mount -t tmpfs tmpfs $dir; done
mkdir -p /run/lock/iscsi

uptime() { cut -d' ' -f1 /proc/uptime; }
for word in $(cat /proc/cmdline); do
    case $word in address=* | portal=* | iqn=* | checks=*) declare "$word" ;; esac
done

# Debian's own settings, but for what suits a test: nothing starts by itself, and a lost session is noticed soon.
sed 's/^node.startup.*/node.startup = manual/; s/^iscsid.startup/#&/
     s/^node.session.timeo.replacement_timeout.*/node.session.timeo.replacement_timeout = 20/' \
    /usr/share/guest/iscsid.conf >/etc/iscsi/iscsid.conf
echo InitiatorName=iqn.2026-11.test:linux >/etc/iscsi/initiatorname.iscsi

ip link set lo up
interface=$(ls /sys/class/net | grep -E '^(vec|eth)' | head -n 1)
ip addr add "$address" dev "$interface" && ip link set "$interface" up
for module in sd_mod sg iscsi_tcp ext4 xfs; do modprobe -q $module || echo "@@note no module $module"; done

iscsid -f >/run/iscsid.log 2>&1 &
for _ in $(seq 50); do iscsiadm -m session >/dev/null 2>&1; [ $? = 21 ] && break; sleep 0.1; done
rc=0
if [ -n "${portal-}" ]; then
    echo "@@begin log in"
    begin=$(uptime)
    iscsiadm -m node -T "$iqn" -p "$portal" -o new && iscsiadm -m node -T "$iqn" -p "$portal" --login
    rc=$?
    for _ in $(seq 100); do [ -e /dev/sdb ] && break; sleep 0.1; done
    # The two volumes, in the order of their LUNs, and their pass-through devices.
    disk_of() { basename "$(ls -d /sys/class/iscsi_session/session*/device/target*/*:$1/block/* 2>/dev/null | head -n 1)"; }
    sg_of() { basename "$(ls -d /sys/class/iscsi_session/session*/device/target*/*:$1/scsi_generic/* 2>/dev/null | head -n 1)"; }
    export DISK=/dev/$(disk_of 1) DISK2=/dev/$(disk_of 2) SG=/dev/$(sg_of 1) SG2=/dev/$(sg_of 2)
    echo "Linux $(uname -r): $DISK ($SG) and $DISK2 ($SG2)"
    [ -b "$DISK" ] && [ -b "$DISK2" ] || rc=1
    echo "@@end $rc $(uptime) $begin"
fi

if [ $rc = 0 ]; then
    section= script=
    finish() {
        [ -n "$section" ] || return
        echo "@@begin $section"
        local begin; begin=$(uptime)
        bash -euo pipefail -c "$script" </dev/null 2>&1
        echo "@@end $? $(uptime) $begin"
    }
    while IFS= read -r line; do
        case $line in
            '## '*) finish; section=${line#'## '} script= ;;
            *) script+=$line$'\n' ;;
        esac
    done <"/usr/share/guest/$checks"
    finish
fi
iscsiadm -m node --logoutall=all >/dev/null 2>&1
echo "@@done"
echo o >/proc/sysrq-trigger
sleep 10
