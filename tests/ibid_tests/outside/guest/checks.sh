# What a Linux host does with two volumes of 1 GiB, $DISK and $DISK2 (pass-through devices: $SG, $SG2). Each section is
# a script that must end with 0; the names are those of the report.
## what the kernel made of the volume
queue=/sys/block/${DISK#/dev/}/queue
for f in discard_max_bytes discard_granularity write_zeroes_max_bytes physical_block_size; do echo "$f $(cat $queue/$f)"; done
mode=$(cat /sys/block/${DISK#/dev/}/device/scsi_disk/*/provisioning_mode)
echo "provisioning_mode $mode"
[ "$mode" = unmap ] || [ "$mode" = writesame_16 ]
[ "$(cat $queue/write_zeroes_max_bytes)" -gt 0 ]
## identity: sg_inq, sg_vpd
sg_inq $DISK
for page in sv sn di bl bdc lbpv ei; do sg_vpd --page=$page $DISK >/tmp/vpd || { echo "page $page"; cat /tmp/vpd; exit 1; }; done
[ "$(sg_vpd --page=di $DISK | grep -c 'naa\|NAA')" -ge 1 ]
[ "$(sg_vpd --page=sn $DISK)" != "$(sg_vpd --page=sn $DISK2)" ]
## mkfs.ext4, mount, data through a remount
mkfs.ext4 -q -F $DISK 512M
mount -o discard $DISK /mnt
head -c 32M /dev/urandom >/tmp/noise
cp /tmp/noise /mnt/noise && sync
umount /mnt && mount $DISK /mnt
echo 3 >/proc/sys/vm/drop_caches
cmp /tmp/noise /mnt/noise
## fstrim
rm /mnt/noise && sync
fstrim -v /mnt
umount /mnt
e2fsck -f -n $DISK
## mkfs.xfs, mount, fstrim
mkfs.xfs -q -f $DISK2
mount $DISK2 /mnt
cp /usr/bin/bash /mnt/bash && sync
echo 3 >/proc/sys/vm/drop_caches
cmp /usr/bin/bash /mnt/bash
rm /mnt/bash && sync && fstrim -v /mnt
umount /mnt
xfs_repair -n $DISK2 2>&1 | tail -n 1
## blkdiscard: the range reads as zeros, its neighbours stay
tr '\0' x </dev/zero 2>/dev/null | head -c 24M >/tmp/xs || true
dd if=/tmp/xs of=$DISK bs=1M oflag=direct status=none
blkdiscard --offset 8M --length 8M $DISK
dd if=$DISK bs=1M count=8 skip=8 iflag=direct status=none | cmp -n 8388608 - /dev/zero
dd if=$DISK bs=1M count=8 iflag=direct status=none | cmp -n 8388608 - /tmp/xs
dd if=$DISK bs=1M count=8 skip=16 iflag=direct status=none | cmp -n 8388608 - /tmp/xs
## blkdiscard -z: zeros by WRITE SAME
dd if=/tmp/xs of=$DISK bs=1M oflag=direct status=none
blkdiscard --zeroout --offset 8M --length 8M $DISK
dd if=$DISK bs=1M count=8 skip=8 iflag=direct status=none | cmp -n 8388608 - /dev/zero
dd if=$DISK bs=1M count=8 skip=16 iflag=direct status=none | cmp -n 8388608 - /tmp/xs
## sg_write_same: a pattern, zeros, UNMAP, NDOB
head -c 512 /dev/urandom >/tmp/block
sg_write_same --16 --lba=0 --num=2048 --xferlen=512 --in=/tmp/block $DISK
cp /tmp/block /tmp/blocks
for _ in $(seq 11); do cat /tmp/blocks /tmp/blocks >/tmp/twice && mv /tmp/twice /tmp/blocks; done
dd if=$DISK bs=1M count=1 iflag=direct status=none | cmp - /tmp/blocks
sg_write_same --10 --lba=512 --num=512 --xferlen=512 $DISK
dd if=$DISK bs=256K count=1 skip=1 iflag=direct status=none | cmp -n 262144 - /dev/zero
dd if=$DISK bs=256K count=1 iflag=direct status=none | cmp -n 262144 - /tmp/blocks
sg_write_same --16 --unmap --lba=0 --num=512 --xferlen=512 $DISK
dd if=$DISK bs=256K count=1 iflag=direct status=none | cmp -n 262144 - /dev/zero
sg_write_same --16 --ndob --lba=1024 --num=512 $DISK
dd if=$DISK bs=256K count=1 skip=2 iflag=direct status=none | cmp -n 262144 - /dev/zero
dd if=$DISK bs=256K count=1 skip=3 iflag=direct status=none | cmp -n 262144 - /tmp/blocks
## sg_unmap, sg_get_lba_status
dd if=/tmp/xs of=$DISK bs=1M oflag=direct status=none
sg_get_lba_status --lba=8192 $DISK
sg_unmap --force --lba=8192 --num=2048 $DISK
sg_get_lba_status --lba=8192 $DISK | tee /tmp/status
grep -q deallocated /tmp/status
dd if=$DISK bs=1M count=1 skip=4 iflag=direct status=none | cmp -n 1048576 - /dev/zero
## sg_compare_and_write: one wins, one is told it lost
head -c 1024 /dev/zero >/tmp/cw && printf locked | dd of=/tmp/cw bs=512 seek=1 conv=notrunc status=none
sg_write_same --16 --lba=100 --num=8 --xferlen=512 $DISK
sg_compare_and_write --in=/tmp/cw --lba=100 --num=1 --xferlen=1024 $DISK
[ "$(dd if=$DISK bs=512 skip=100 count=1 iflag=direct status=none | head -c 6)" = locked ]
rc=0; sg_compare_and_write --in=/tmp/cw --lba=100 --num=1 --xferlen=1024 $DISK || rc=$?
echo "the second: exit $rc (14 is MISCOMPARE)"
[ $rc = 14 ]
## sg_xcopy within a volume
head -c 4M /dev/urandom >/tmp/noise
dd if=/tmp/noise of=$DISK bs=1M seek=256 oflag=direct status=none
sg_xcopy if=$SG of=$SG bs=512 skip=$((256 * 2048)) seek=$((512 * 2048)) count=8192
dd if=$DISK bs=1M skip=512 count=4 iflag=direct status=none | cmp - /tmp/noise
## sg_xcopy between volumes
sg_xcopy if=$SG of=$SG2 bs=512 skip=$((256 * 2048)) seek=$((700 * 2048)) count=8192
dd if=$DISK2 bs=1M skip=700 count=4 iflag=direct status=none | cmp - /tmp/noise
## ddpt: EXTENDED COPY as another program sends it
ddpt if=$SG of=$SG bs=512 skip=$((256 * 2048)) seek=$((800 * 2048)) count=8192 iflag=xcopy
dd if=$DISK bs=1M skip=800 count=4 iflag=direct status=none | cmp - /tmp/noise
## sg_copy_results: operating parameters
sg_copy_results --params $SG
## sg_opcodes: what it says it can
sg_opcodes $DISK >/tmp/opcodes
for command in 'Compare and write' 'Extended copy' 'Write same(16)' 'Unmap'; do
    grep -qi "$command" /tmp/opcodes || { echo "not listed: $command"; cat /tmp/opcodes; exit 1; }
done
## sg_persist: register, reserve, release
sg_persist --out --register --param-sark=0xabc1 $DISK
sg_persist --out --reserve --param-rk=0xabc1 --prout-type=5 $DISK
sg_persist --in --read-reservation $DISK | tee /tmp/pr
grep -qi 'write exclusive, registrants only' /tmp/pr || grep -qi 'Write Exclusive, reg' /tmp/pr
sg_persist --in --report-capabilities $DISK
sg_persist --out --release --param-rk=0xabc1 --prout-type=5 $DISK
sg_persist --out --register --param-rk=0xabc1 $DISK
## sg_reset, and the volume still serves
sg_reset --device $SG
sg_turs $DISK || sg_turs $DISK
sg_verify --16 --lba=0 --count=64 $DISK
sg_sync $DISK
## many writers at once, then every byte compared
for n in 0 1 2 3; do
    ( for i in 0 1 2 3; do dd if=/tmp/noise of=$DISK2 bs=64K seek=$(((n * 4 + i) * 64)) oflag=direct conv=notrunc status=none; done ) &
done
wait
for n in $(seq 0 15); do dd if=$DISK2 bs=64K skip=$((n * 64)) count=64 iflag=direct status=none | cmp - /tmp/noise; done
