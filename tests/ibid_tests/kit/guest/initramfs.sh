#!/bin/busybox sh
# Mounts the guest's root, and continues there. `modules` has the modules in the order in which they are loaded.
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do /bin/busybox insmod "/modules/$module"; done </modules/list
n=0
until [ -b /dev/vda ] || [ $n = 100 ]; do /bin/busybox sleep 0.1; n=$((n + 1)); done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root
/bin/busybox mount -t devtmpfs dev /root/dev
/bin/busybox mount -t tmpfs tmpfs /root/run
/bin/busybox cp -r /guest /root/run/guest
exec /bin/busybox switch_root /root /bin/bash /run/guest/init.sh
