/** Commands that connect a host, by its operating system, with the addresses of this array. */

export const SYSTEMS = ['ESXi', 'Linux', 'Windows', 'Proxmox'] as const;
export type System = (typeof SYSTEMS)[number];
export type Recipe = { host: string; iqn: string; find: string; logIn: string; after?: string };

const each = (portals: string[], line: (portal: string) => string) => portals.map(line).join('\n');

/** Splits the address of a portal into host and port. */
export function splitPortal(portal: string): { address: string; port: string } {
  const at = portal.lastIndexOf(':');
  return { address: portal.slice(0, at).replace(/^\[|\]$/g, ''), port: portal.slice(at + 1) };
}

export function recipe(system: System, portals: string[], target: string, serial: string): Recipe {
  const disk = `/dev/disk/by-id/wwn-0x624a9370${serial.toLowerCase() || 'SERIAL'}`;
  const first = portals[0] ?? '';
  switch (system) {
    case 'ESXi':
      return {
        host: 'esx-01',
        iqn: 'iqn.1998-01.com.vmware:esx-01',
        find: 'esxcli iscsi software set --enabled=true\n# the adapter has a name, here vmhba64\nesxcli iscsi adapter list\nesxcli iscsi adapter get -A vmhba64 | grep -i "^ *name"',
        logIn: `${each(portals, (portal) => `esxcli iscsi adapter discovery sendtarget add -A vmhba64 -a ${portal}`)}\nesxcli storage core adapter rescan -A vmhba64`,
      };
    case 'Linux':
      return {
        host: 'web-01',
        iqn: 'iqn.2004-10.com.ubuntu:01:web-01',
        find: 'apt install open-iscsi\ncat /etc/iscsi/initiatorname.iscsi',
        logIn: `${each(portals, (portal) => `iscsiadm -m discovery -t sendtargets -p ${portal}`)}\niscsiadm -m node -T ${target} --login\niscsiadm -m node -T ${target} -o update -n node.startup -v automatic`,
        after: `mkfs.ext4 ${disk}\nmkdir -p /mnt/ibid\nmount -o _netdev ${disk} /mnt/ibid`,
      };
    case 'Windows':
      return {
        host: 'sql-01',
        iqn: 'iqn.1991-05.com.microsoft:sql-01',
        find: 'Set-Service MSiSCSI -StartupType Automatic\nStart-Service MSiSCSI\n(Get-InitiatorPort).NodeAddress',
        logIn: `${each(portals, (portal) => {
          const { address, port } = splitPortal(portal);
          return `New-IscsiTargetPortal -TargetPortalAddress ${address} -TargetPortalPortNumber ${port}`;
        })}\nGet-IscsiTarget | Connect-IscsiTarget -IsPersistent $true`,
      };
    case 'Proxmox':
      return {
        host: 'pve-01',
        iqn: 'iqn.1993-08.org.debian:01:pve-01',
        find: '# on every node\ncat /etc/iscsi/initiatorname.iscsi',
        logIn: `pvesm add iscsi ibid --portal ${first} --target ${target} --content none`,
        after: `vgcreate ibid-vg ${disk}\npvesm add lvm ibid-lvm --vgname ibid-vg --shared 1 --content images`,
      };
  }
}

/** Commands that log a host in again, by the operating system in its initiator's name. */
export function loginAgain(iqn: string, target: string): { system: System; commands: string } {
  if (iqn.includes('com.vmware')) {
    const lines = ['adapter discovery rediscover -A vmhba64', 'session list -A vmhba64'];
    return {
      system: 'ESXi',
      commands: `${lines.map((line) => `esxcli iscsi ${line}`).join('\n')}\nesxcli storage core adapter rescan -A vmhba64`,
    };
  }
  if (iqn.includes('com.microsoft')) {
    return {
      system: 'Windows',
      commands: 'Get-IscsiTarget | Connect-IscsiTarget -IsPersistent $true\nGet-IscsiSession',
    };
  }
  return { system: 'Linux', commands: `iscsiadm -m node -T ${target} --login\niscsiadm -m session -P 1` };
}
