/** All text of the console. A translation replaces this file. Messages of the array stay as they are. */

import { isWholeDays, type Retention, type Schedule, timeOfDay } from './format/schedule';
import { duration } from './format/time';
import { chosenSize, count } from './format/units';
import type { Fault } from './lab/report';
import type { Request, StretchRequest } from './parts/request';

const plural = (n: number, one: string, many: string) => `${count(n)} ${n === 1 ? one : many}`;
const names = (list: string[]) =>
  list.length <= 3 ? list.join(', ') : `${list.slice(0, 2).join(', ')} and ${count(list.length - 2)} more`;
/** Titles of the documents that the lab quotes. */
const documents: Record<string, string> = {
  guide: 'VMware Storage APIs for Array Integration with the Pure Storage FlashArray (2015)',
  write_same: 'What’s New in Purity 5.1: WRITE SAME Handling Improvement',
  unmap: 'Deeper dive on vSphere UNMAP block count with Pure Storage',
};
const DAY = 86_400_000;
/** Alerts of pods on two arrays, with the name of the pod as their component. */
const POD_ALERTS = [17, 18, 19, 20, 21, 22, 23, 24];
type Remedy = {
  label: string;
  to?: '/volumes' | '/array' | '/array-connections';
  search?: { destroyed: boolean };
  /** The component is a pod, otherwise a volume. */
  isPod?: boolean;
};
/** Titles of the dialogs about pods on two arrays. */
const stretchTitle = (request: StretchRequest): string => {
  const { name } = request.pod;
  switch (request.kind) {
    case 'stretch':
      return `Stretch ${name} to another array`;
    case 'unstretch':
      return `Remove ${name} from ${request.array}`;
    case 'prefer':
      return `Preferred array of ${name}`;
    case 'mediator':
      return `Mediator of ${name}`;
    case 'resyncLimit':
      return `Resync limit of ${name}`;
    case 'resign':
      return `Hand ${name} over to ${request.array}`;
  }
};
const words = ['Nothing', 'One thing', 'Two things', 'Three things', 'Four things', 'Five things'];

export const text = {
  product: 'Ibid',
  skip: 'Skip to content',
  nav: {
    label: 'Main',
    overview: 'Overview',
    storage: 'Storage',
    volumes: 'Volumes',
    protection: 'Protection',
    hosts: 'Hosts',
    pods: 'Pods',
    arrayConnections: 'Connected arrays',
    insight: 'Insight',
    performance: 'Performance',
    lab: 'Lab reports',
    array: 'Array',
    arrayAndPorts: 'Array and ports',
    alerts: 'Alerts',
    activity: 'Activity',
    settings: 'Settings',
    more: 'More',
    help: 'Connect a first host',
  },
  header: {
    search: 'Search, or run a command',
    live: 'live',
    polled: 'every 10 s',
    silent: (time: string) => `no answer since ${time}`,
    theme: 'Switch between light and dark',
    alerts: (n: number) => (n === 0 ? 'No open alerts' : plural(n, 'open alert', 'open alerts')),
    logOut: 'Log out',
    roles: { readonly: 'read-only', ops_admin: 'operations', storage_admin: 'storage' },
    self: (name: string, role: string) => `Logged in as ${name}, ${role}`,
  },
  footer: (version: string, zone: string) => `Ibid ${version} · times in ${zone}`,
  login: {
    title: (array: string) => `Log in to ${array}`,
    thisArray: 'this array',
    ended: 'Your session has ended. Log in to continue; everything you typed is kept.',
    token: 'API token',
    tokenHelp:
      'The token is in the file admin-token in the directory of the array. On its machine: ibid token --data DIR',
    submit: 'Log in',
    wrong: 'This token is not valid.',
    tooMany: 'Too many failed logins from this address. Wait one minute.',
  },
  common: {
    command: 'Command',
    copy: 'Copy',
    copied: 'Copied',
    cancel: 'Cancel',
    close: 'Close',
    undo: 'Undo',
    undone: 'Undone.',
    retry: 'Try again',
    loading: 'Loading',
    details: 'Details',
    none: '–',
    show: 'Show',
    name: 'Name',
    size: 'Size',
    host: 'Host',
    more: (n: number) => `${count(n)} more`,
    ago: (time: string) => (/\d{4}/.test(time) ? time : `${time} ago`),
    counted: (time: string) => `counted ${time} ago`,
  },
  errors: {
    title: 'This did not work',
    noAnswer: 'The array does not answer. The figures are from the last answer.',
    silent: (time: string) => `The array has not answered since ${time}. The figures are from then.`,
    tryNow: 'Try now',
    server: 'The array says',
    hint: {
      not_allowed: 'Ask an administrator with a higher role, or log in as one.',
      in_group_snapshot: 'It belongs to a snapshot of a protection group. Change that one.',
      shared_connection: 'The connection belongs to the host group. Disconnect the volume there.',
      group_has_members: 'Remove its members first.',
      group_has_no_members: 'Add volumes to the group first.',
      host_group_connected: 'Disconnect its volumes first.',
      volume_connected: 'Disconnect the volume from its hosts first: see its tab Connections.',
      host_connected: 'Disconnect the volumes of the host first.',
      volume_exists:
        'Choose another name. The volume may be among the destroyed ones, which keep their names.',
      limit_reached: 'Eradicate destroyed volumes: they count until then.',
      would_truncate: 'A smaller size cuts off data.',
      invalid_filter: 'Check the condition. Fields: name, size, written, stored, reduction, hosts, created.',
      out_of_space: 'Eradicate destroyed volumes or grow the array.',
      lun_in_use: 'Another volume has taken the LUN. Connect without a LUN to get a free one.',
      quota_exceeded: 'Raise the quota of the pod, or choose a smaller size.',
      pod_stretched: 'Remove the pod from the other array first.',
      pod_exists: 'Choose another name. The pod may be among the destroyed ones, which keep their names.',
      array_connection_failed:
        'A key is for one attempt. If this one reached the other array, make a new key there.',
    } as Record<string, string>,
    pageTitle: 'This page failed',
    reload: 'Reload',
    notFound: 'There is no such page.',
  },
  done: {
    created: (name: string) => `${name} created.`,
    destroyed: (list: string[]) => `${names(list)} destroyed.`,
    partly: (n: number, reason: string) => `${plural(n, 'volume was', 'volumes were')} left: ${reason}`,
    recovered: (list: string[]) => `${names(list)} recovered.`,
    eradicated: (name: string) => `${name} eradicated.`,
    deleted: (name: string) => `${name} deleted.`,
    connected: (volumes: string[], to: string[]) => `${names(volumes)} connected to ${names(to)}.`,
    disconnected: (volume: string, host: string) => `${volume} disconnected from ${host}.`,
    snapshot: (list: string[]) => `${plural(list.length, 'snapshot', 'snapshots')} created: ${names(list)}.`,
    cloned: (source: string, name: string) => `${name} is a copy of ${source}.`,
    restored: (volume: string, from: string) => `${volume} has the content of ${from}.`,
    renamed: (name: string, to: string) => `${name} is now ${to}.`,
    resized: (name: string, bytes: number) => `${name} has ${chosenSize(bytes)}.`,
    scrub: 'Scrub started.',
    changed: (what: string) => `${what} changed.`,
    limits: (name: string) => `Limits of ${name} changed.`,
    joined: (list: string[], group: string) => `${names(list)} added to ${group}.`,
    left: (name: string, group: string) => `${name} removed from ${group}.`,
    restoredGroup: (list: string[], from: string) =>
      `${plural(list.length, 'volume has', 'volumes have')} the content of ${from}: ${names(list)}.`,
    role: (name: string, role: string) => `${name} has the role ${role}.`,
    tokenRemoved: (name: string) => `${name} has no token any more.`,
    grown: (capacity: string) => `The array has ${capacity}.`,
    moved: (list: string[], pod: string | null) =>
      pod === null ? `${names(list)} moved out of the pod.` : `${names(list)} moved to ${pod}.`,
    stretched: (pod: string, array: string) => `${pod} is being brought to ${array}.`,
    unstretched: (pod: string, array: string) => `${pod} is being removed from ${array}.`,
    preferred: (pod: string, array: string) => `${pod} prefers ${array}.`,
    mediator: (pod: string, address: string) =>
      address === '' ? `${pod} has no mediator any more.` : `${pod} has the mediator ${address}.`,
    resigned: (pod: string, array: string) => `${pod} is being handed over to ${array}.`,
    arrayConnected: (name: string) => `Connected to ${name}.`,
    arrayDisconnected: (name: string) => `Disconnected from ${name}.`,
    distance: (name: string, isNear: boolean) =>
      isNear ? `No distance to ${name} is simulated.` : `Distance to ${name} changed.`,
  },
  overview: {
    kicker: (array: string) => `Array ${array}`,
    served: 'All data served.',
    notServed: 'The array has stopped serving writes.',
    critical: 'Something critical needs you.',
    attention: (n: number) =>
      n === 0 ? '' : `${words[n] ?? plural(n, 'thing', 'things')} ${n === 1 ? 'needs' : 'need'} a look.`,
    counts: (volumes: number, hosts: number) =>
      `${plural(volumes, 'volume', 'volumes')}, ${plural(hosts, 'host', 'hosts')}.`,
    capacity: 'Capacity',
    capacityNote: 'what hosts see, wrote, and what it takes',
    provisioned: 'Provisioned',
    written: 'Written by hosts',
    stored: 'Stored, reduced',
    thin: (ratio: string) => `thin ${ratio}`,
    reduction: (ratio: string) => `reduction ${ratio}`,
    unique: 'Unique',
    shared: 'Shared, stored once',
    snapshots: 'Snapshots only',
    system: 'System',
    free: 'Free',
    inUse: (used: string, all: string, percent: string) => `${used} of ${all} in use (${percent}).`,
    warnsAt: (percent: number) => `${percent}\u00a0% warns`,
    pool: 'The pool by kind of data',
    busiest: 'Busiest volumes',
    busiestNote: 'in the last two seconds',
    idle: 'No host reads or writes now.',
    limitedBy: 'Limited by',
    ownLimit: 'own limit',
    nothing: 'nothing',
    iops: 'IOPS',
    latency: 'Latency',
    bandwidth: 'Bandwidth',
    largest: 'Largest volumes',
    largestNote: 'by stored data',
    recoverable: 'Recoverable',
    recoverableNote: 'destroyed, not yet eradicated',
    nothingDestroyed: 'Destroyed volumes wait here until they are eradicated. There are none.',
    noVolumes: 'Volumes are the disks that hosts see. There are none yet.',
    first: 'Start here',
  },
  charts: {
    range: 'Range of time',
    ranges: { '10m': '10 min', '1h': '1 h', '24h': '24 h', '7d': '7 d', '30d': '30 d', '1y': '1 y' },
    latency: 'Latency',
    latencyNote: 'mean, 99th percentile dotted',
    operations: 'Operations',
    bandwidth: 'Bandwidth',
    perSecond: 'per second',
    read: 'read',
    write: 'write',
    read99: 'read, 99th percentile',
    write99: 'write, 99th percentile',
    percentile: (figure: string) => `99\u00a0%: ${figure}`,
    empty: 'No host has read or written in this time.',
    none: 'No figures yet. The first appear within a minute.',
    begins: (time: string) => `The figures begin at ${time}; a restart of the array empties them.`,
    resolution: (step: string) => `One point each ${step}.`,
    summary: (label: string, now: string, most: string) => `${label} ${now} now, at most ${most}`,
    showTable: 'Show as table',
    hideTable: 'Hide table',
    table: 'Figures as a table',
    time: 'Time',
    readLatency: 'Read latency',
    writeLatency: 'Write latency',
    reads: 'Reads/s',
    writes: 'Writes/s',
    readBandwidth: 'Read',
    writeBandwidth: 'Written',
  },
  performance: {
    sub: 'Which volume or host is slow, and since when.',
    of: 'What to compare',
    compared: 'Compared',
    hint: 'at most four; without a choice, the busiest now',
    mean: 'mean of reads and writes',
    empty: 'Nothing is busy now. Choose what to compare.',
    now: 'Busy now',
  },
  offloads: {
    title: 'By reference',
    note: 'since the array started',
    copied: 'copied by reference.',
    copiedNote: (copies: string, spared: string) =>
      `Hosts asked for ${copies}. Copying by reading and writing would have moved ${spared} over their network.`,
    copies: (n: number) => plural(n, 'copy', 'copies'),
    none: 'No host has used an offload since the array started.',
    noneHint:
      'ESXi uses them by itself. On Linux, see: cat /sys/block/sdX/queue/discard_max_bytes; a copy needs sg_xcopy or ddpt.',
    kinds: {
      extended_copy: { name: 'Clone', command: 'XCOPY', done: (size: string) => `${size} copied` },
      write_same: { name: 'Zero', command: 'WRITE SAME', done: (size: string) => `${size} filled` },
      compare_and_write: {
        name: 'Lock',
        command: 'ATS',
        done: (_: string, n: number) => `${plural(n, 'lock', 'locks')} taken`,
      },
      unmap: { name: 'Delete', command: 'UNMAP', done: (size: string) => `${size} released` },
    },
    commands: (n: number, latency: string) => `${plural(n, 'command', 'commands')}, ${latency} each`,
    notTaken: (n: number) => `${count(n)} not taken`,
    refused: (n: number) => `${count(n)} refused`,
  },
  volumes: {
    kicker: 'Storage',
    title: 'Volumes',
    summary: (n: number) => plural(n, 'volume', 'volumes'),
    matching: (n: number) => `${plural(n, 'volume matches', 'volumes match')}`,
    create: 'New volume',
    present: 'In use',
    destroyed: 'Destroyed',
    filter: 'Filter volumes',
    filterHint: "a word, or: name='vdi-*' and written > 20G",
    chips: [
      ['no host', 'hosts = 0'],
      ['large', 'size >= 1T'],
      ['reduces badly', 'reduction < 1.5 and stored > 10G'],
      ['nothing written', 'written = 0'],
      ['in a pod', "pod = '*'"],
    ] as [string, string][],
    columns: {
      name: 'Name',
      size: 'Size',
      written: 'Written',
      stored: 'Stored',
      reduction: 'Reduction',
      hosts: 'Hosts',
      created: 'Created',
      remaining: 'Recoverable for',
    },
    select: (name: string) => `Select ${name}`,
    writtenOf: (written: string, size: string) => `${written} written of ${size}`,
    empty: 'Volumes are the disks that hosts see. A new one takes no space until a host writes to it.',
    emptyDestroyed: 'Destroyed volumes wait here until they are eradicated. There are none.',
    noMatch: 'No volume matches this filter.',
    clear: 'Clear filter',
    selected: (n: number) => `${count(n)} selected`,
    selectAll: (n: number) => `Select all ${count(n)}`,
    clearSelection: 'Clear selection',
    tooMany: (n: number) => `One call takes a snapshot of at most ${count(n)} volumes.`,
    row: (hosts: number) => plural(hosts, 'host', 'hosts'),
  },
  volume: {
    tabs: {
      summary: 'Summary',
      performance: 'Performance',
      snapshots: 'Snapshots',
      connections: 'Connections',
    },
    kicker: 'Volume',
    gone: 'This volume does not exist any more.',
    goneHint: 'It may have been renamed or eradicated.',
    backToList: 'Back to the list',
    space: 'Space',
    onlyHere: 'Only here',
    sharedPart: 'Share of common data',
    snapshotsOnly: 'Snapshots only',
    notCounted: 'Space has not been counted yet.',
    frees: (size: string, delay: string) =>
      `Destroying it frees ${size} when it is eradicated, ${delay} later. Data shared with other volumes stays.`,
    connected: 'It is connected, so it cannot be destroyed.',
    identity: 'Identity',
    serial: 'Serial number',
    naa: 'NAA',
    created: 'Created',
    source: 'Copied from',
    pod: 'Pod',
    volumeGroup: 'Volume group',
    limits: 'Limits',
    noLimit: 'none',
    bandwidth: (size: string) => `${size}/s`,
    iops: (n: number) => `${count(n)} IOPS`,
    threshold: 'Warns hosts at',
    remaining: (time: string) => `Destroyed. Recoverable for ${time}.`,
    newer: 'new',
    noSnapshots: 'A snapshot keeps the content of this moment and takes no space until the volume changes.',
    noConnections: 'No host sees this volume yet.',
    lun: (lun: number) => `LUN ${lun}`,
    readOnly: 'read-only',
    actions: 'More actions',
    previous: 'Previous volume',
    next: 'Next volume',
  },
  verbs: {
    create: 'New volume',
    snapshot: 'Snapshot',
    connect: 'Connect',
    disconnect: 'Disconnect',
    clone: 'Clone',
    rename: 'Rename',
    resize: 'Resize',
    destroy: 'Destroy',
    recover: 'Recover',
    eradicate: 'Eradicate',
    restore: 'Restore',
    addHost: 'Add host',
    deleteHost: 'Delete',
    attach: 'Connect a volume',
    scrub: 'Start scrub',
    showVolume: (name: string) => `Open ${name}`,
    edit: 'Edit',
    save: 'Save',
    remove: 'Remove',
    protect: 'Protect',
    limits: 'Limits',
    setLimits: 'Set limits',
    newGroup: 'New group',
    plan: 'Schedule',
    addVolumes: 'Add volumes',
    newHostGroup: 'New host group',
    addHosts: 'Add hosts',
    newAdmin: 'New administrator',
    role: 'Role',
    deleteAdmin: 'Delete',
    removeToken: 'Remove token',
    newPod: 'New pod',
    quota: 'Quota',
    moveIn: 'Move volumes in',
    moveOut: 'Move out',
    move: 'Move',
    stretch: 'Stretch',
    unstretch: 'Remove from the other array',
    prefer: 'Prefer an array',
    mediator: 'Mediator',
    resyncLimit: 'Resync limit',
    resign: 'Hand over',
    newKey: 'Connection key',
    makeKey: 'Make a key',
    connectArray: 'Connect an array',
    linkTest: 'Link test',
    runTest: 'Run the test',
    distance: 'Distance',
    address: 'Address',
    end: 'End the simulation',
  },
  forms: {
    createNote: 'It takes no space until a host writes to it.',
    connectTo: 'Connect to (optional)',
    nobody: 'No host yet',
    sizeHint: '1 MiB to 4 PiB, for example 1TiB',
    sizeUnreadable: 'Write a size such as 64GiB or 1.5TiB.',
    sizeDecimal: (suggestion: string) => `TB, GB and MB are decimal. Did you mean ${suggestion}?`,
    nameHint: '1 to 63 letters, digits, - and _',
    suffix: 'Suffix (optional)',
    suffixHint: 'Without one, the array takes the next number.',
    snapshotNote: 'All at one instant. It takes no space until a volume changes.',
    noHosts: 'There are no hosts yet. Add one on the page Hosts.',
    cloneNote: 'The copy shares its data with the source. No data is moved.',
    newName: 'New name',
    shrinks: 'The end of the volume is cut off. Its content until now is kept as a destroyed snapshot.',
    restoreNote: (volume: string) =>
      `The present content of ${volume} is kept as a destroyed snapshot. Unmount it on its hosts first.`,
    eradicateNote: 'Its data and its snapshots are removed now. This cannot be undone.',
    typeName: (name: string) => `Type ${name} to confirm`,
    volume: 'Volume',
    hosts: 'Hosts',
    hostGroups: 'Host groups',
    lun: 'LUN (optional)',
    lunHint: 'Without one, the array takes the lowest free LUN from 1.',
    lunUnreadable: 'A LUN is a whole number from 0 to 4095.',
    hostNote: 'A host is known by the name of its iSCSI initiator.',
    editHostNote: 'Sessions that exist keep their values; the next login uses the new ones.',
    iqn: 'Initiator name (IQN)',
    iqnHint: 'Several on a line each. For example iqn.2004-10.com.ubuntu:01:web-01; * admits every initiator',
    personality: 'Personality',
    personalityHint: 'esxi: space is released in units of 1 MiB',
    noPersonality: 'none',
    setChap: 'Authenticate with CHAP',
    changeChap: 'Change CHAP',
    chapTitle: 'CHAP',
    hostUser: 'User of the host',
    hostUserHint: 'Empty turns CHAP off.',
    hostSecret: 'Secret of the host',
    targetUser: 'User of the array (mutual CHAP)',
    targetUserHint: 'Empty turns mutual CHAP off.',
    targetSecret: 'Secret of the array',
    secretHint: '12 to 255 characters; another one for each direction',
    secretKept: 'Empty keeps the present secret.',
    hostGroupNote: 'All hosts of a group see the volumes of the group at the same LUN.',
    addHostsNote: 'The hosts see the volumes of the group at once.',
    oneGroup: 'A host is in one group at most.',
    noHostFree: 'No host without a group.',
    limitsNote: 'The limits apply to the volume over all its hosts, at once. An empty field is no limit.',
    bandwidth: 'Bytes per second',
    bandwidthHint: '1MiB to 512GiB',
    iops: 'Reads and writes per second',
    iopsHint: '100 to 100000000',
    warnAt: 'Warn hosts at this percentage written',
    warnAtHint: '1 to 100',
    groupNote: 'A group takes snapshots of its volumes at one instant, by a schedule.',
    planNote:
      'A shorter retention destroys scheduled snapshots that it no longer keeps. They can be recovered.',
    runs: 'Take snapshots by the schedule',
    every: 'Every',
    everyHint: '5min to 400d, for example 1h',
    everyUnreadable: 'Write a time from 5min to 400d.',
    at: 'At (UTC, optional)',
    atHint: 'for whole days, for example 02:00',
    atUnreadable: 'Write a time of day such as 02:00.',
    keepAll: 'Keep all for',
    keepAllHint: 'for example 24h',
    perDay: 'Then keep of each day',
    perDayHint: 'snapshots, 0 for none',
    forDays: 'For days',
    forDaysHint: 'after the time above',
    notWhole: 'Write a whole number.',
    addVolumesNote: 'The next snapshot of the group includes them.',
    protectNote: 'The next snapshot of the group includes these volumes.',
    group: 'Protection group',
    noGroups: 'There is no group yet. Make one on the page Protection.',
    groupSnapshotNote: 'Of all its volumes, at one instant. The retention does not remove it.',
    restoreGroupNote: (list: string[]) =>
      `Sets back ${names(list)}, one after the other. The present content of each is kept as a destroyed snapshot. Unmount them on their hosts first.`,
    eradicateGroupNote:
      'The group and its snapshots are removed now. This cannot be undone. Its volumes stay.',
    role: 'Role',
    roleNote: 'The new role applies to open sessions at once.',
    adminNote: 'A new administrator has no token. Make one next, and pass it on.',
    adminHint: 'in lower case',
    deleteAdminNote: 'Its token and its sessions end now. The audit trail keeps its changes.',
    removeTokenNote: 'The token and all its sessions end now. The administrator stays.',
    valid: 'Valid for (optional)',
    validHint: 'for example 90d; empty: no limit',
    pod: 'Pod',
    inPod: 'In the pod (optional)',
    noPod: 'no pod',
    podNote:
      'Its volumes are named POD::VOLUME. It is on this array; it can be stretched to a second one later.',
    quotaField: 'Quota (optional)',
    quotaHint: '1 MiB to 4 PiB for the sizes of its volumes together; empty: none',
    quotaUnreadable: 'A quota is from 1 MiB to 4 PiB.',
    quotaNote: (used: string) =>
      `Its volumes have ${used} together. Written data, snapshots and destroyed volumes do not count.`,
    quotaBelow: 'This is less than its volumes have. They can shrink and leave; none can be added or grow.',
    clonePodNote:
      'All its volumes are copied at one instant and share their data with the source. Snapshots and connections are not copied.',
    eradicatePodNote:
      'Its volumes and their snapshots are removed now, with those destroyed before. This cannot be undone.',
    moveNote: 'Names change, and nothing else: hosts keep reading and writing.',
    moveTo: 'Move to',
    moves: (from: string, to: string) => `${from} becomes ${to}.`,
    ownName: (container: string) => `after ${container}; a rename keeps its place`,
    stretchNote: (command: string) =>
      `The other array gets all content and then serves the same volumes. Hosts use the pod all the time, and each change waits for the link. Connect the volumes to hosts there as well. This compares both arrays first: ${command}`,
    toArray: 'To the array',
    noArrays: 'No array is connected',
    noArraysHint: 'Connect one on the page Connected arrays.',
    notReachable: (array: string) => `${array} (the link is down)`,
    mediatorField: 'Mediator (optional)',
    mediatorHint: 'HOST or HOST:PORT, or URLs of an etcd cluster; it has to allow both arrays',
    withoutMediator:
      'Without a mediator, only the preferred array continues if the arrays lose each other. If that array is lost, the pod is paused.',
    mediatorNote:
      'It decides which array continues if they lose each other. It runs on a third machine, so that it depends on neither.',
    preferNote:
      'The preferred array continues if only the link is lost. It may be another one than the array that orders changes.',
    preferField: 'Array',
    resyncNote:
      'Data that bring the other array into step come at most this fast. It holds at once, on both arrays. What hosts write is not limited.',
    resyncField: 'Bytes per second (optional)',
    resyncHint: '1 MiB to 1 TiB, for example 100MiB; empty: no limit',
    resyncUnreadable: 'A limit is from 1 MiB to 1 TiB.',
    resignNote: (array: string) =>
      `${array} orders the changes from then on. It serves alone for a moment and brings this array into step.`,
    unstretchNote: (array: string) =>
      `${array} discards its volumes, snapshots and connections of the pod, so its hosts lose these volumes. Hosts of this array notice nothing. To stretch the pod again, all content crosses the link.`,
    keyNote:
      'A key lets one array connect to this one. It is valid for 30 minutes and for one attempt, good or bad, and takes the place of the key before.',
    keyMade: (time: string) => `Valid until ${time}, for one attempt. Then, on the other array:`,
    keyDone: 'Done',
    connectArrayNote:
      'This array makes the link, and makes it again when it is lost. Pods on two arrays send their changes over it.',
    address: 'Address of the other array',
    addressHint: 'its --link address: HOST or HOST:PORT; the port is 8117 by default',
    key: 'Connection key',
    keyHint: 'made on the other array, by: ibid array connection-key',
    expected: 'Name of the other array (optional)',
    expectedHint: 'If given, the arrays connect only if it has this name.',
    disconnectArrayNote:
      'The other array removes the connection too if the link is up. To connect again, a new key is needed.',
    addressNote: 'For an array that has moved. Its certificate stays the same.',
    distanceNote:
      'For tests: the link behaves as one over this distance. It stays after a restart, and the console shows it.',
    rtt: 'Added to each round trip',
    rttHint: 'for example 4ms or 500us; 0 for nothing',
    jitter: 'Random part of it, at most',
    microsUnreadable: 'Write a time such as 4ms. Both together are at most 500 ms.',
    rate: 'Bytes per second and direction (optional)',
    rateHint: 'at least 1MiB; empty: no limit',
    cut: 'Cut',
    cuts: {
      none: 'nothing is cut',
      in: 'nothing arrives here',
      out: 'nothing leaves here',
      both: 'nothing arrives or leaves',
    },
    linkTestNote: 'Measures for one second in each direction, beside what else crosses the link.',
  },
  /** Titles of the dialogs. */
  titles: (request: Request): string => {
    switch (request.kind) {
      case 'create':
        return 'New volume';
      case 'host':
        return 'Add host';
      case 'editHost':
        return `Edit ${request.host.name}`;
      case 'hostGroup':
        return 'New host group';
      case 'addHosts':
        return `Add hosts to ${request.group}`;
      case 'attach':
        return `Connect a volume to ${'host' in request.to ? request.to.host : request.to.hostGroup}`;
      case 'admin':
        return 'New administrator';
      case 'role':
        return `Role of ${request.admin.name}`;
      case 'deleteAdmin':
        return `Delete ${request.name}`;
      case 'removeToken':
        return `Remove the token of ${request.name}`;
      case 'token':
        return `New API token for ${request.admin}`;
      case 'snapshot':
        return `Snapshot of ${names(request.names)}`;
      case 'connect':
        return `Connect ${names(request.names)}`;
      case 'protect':
        return `Protect ${names(request.names)}`;
      case 'protectionGroup':
        return 'New protection group';
      case 'plan':
        return `Schedule of ${request.group.name}`;
      case 'addVolumes':
        return `Add volumes to ${request.group}`;
      case 'groupSnapshot':
        return `Snapshot of ${request.group}`;
      case 'restoreGroup':
        return `Restore from ${request.snapshot}`;
      case 'clone':
        return `Clone ${request.source}`;
      case 'rename':
        return `Rename ${request.name}`;
      case 'resize':
        return `Resize ${request.volume.name}`;
      case 'limits':
        return `Limits of ${request.volume.name}`;
      case 'restore':
        return `Restore ${request.volume} from ${request.from}`;
      case 'pod':
        return 'New pod';
      case 'clonePod':
        return `Clone ${request.source}`;
      case 'quota':
        return `Quota of ${request.pod.name}`;
      case 'moveIn':
        return `Move volumes to ${request.pod}`;
      case 'move':
        return `Move ${names(request.names)}`;
      case 'connectionKey':
        return 'Connection key';
      case 'connectArray':
        return 'Connect an array';
      case 'disconnectArray':
        return `Disconnect from ${request.name}`;
      case 'linkAddress':
        return `Address of ${request.name}`;
      case 'linkTest':
        return `Link test with ${request.name}`;
      case 'distance':
        return `Distance to ${request.link.name}`;
      case 'eradicate':
      case 'eradicateGroup':
      case 'eradicatePod':
        return `Eradicate ${request.name}`;
      default:
        return stretchTitle(request);
    }
  },
  hosts: {
    kicker: 'Storage',
    title: 'Hosts',
    summary: (n: number, sessions: number, troubled: number) =>
      `${plural(n, 'host', 'hosts')}, ${plural(sessions, 'session', 'sessions')}.${
        troubled === 0 ? '' : ` ${plural(troubled, 'host has', 'hosts have')} a lost or unstable path.`
      }`,
    add: 'Add host',
    matrix: 'Hosts and ports',
    columns: {
      name: 'Host',
      volumes: 'Volumes',
      paths: 'Paths',
      remark: 'Remark',
      chap: 'CHAP',
    },
    of: (connected: number, used: number) => (used === 0 ? '–' : `${count(connected)} of ${count(used)}`),
    states: { connected: 'connected', unstable: 'unstable', missing: 'missing', none: 'not set up' },
    remark: {
      good: () => 'Even',
      lost: (n: number) => plural(n, 'path is lost', 'paths are lost'),
      unstable: (n: number) => `lost ${plural(n, 'time', 'times')} within an hour`,
      out: () => 'logged out',
      never: () => 'has not logged in yet',
      one: () => 'one path',
    },
    refused: 'Refused logins',
    refusedNote: 'since the array started',
    refusedBy: (from: string, n: number, last: string) =>
      `from ${from}, ${plural(n, 'attempt', 'attempts')}, the last ${last} ago`,
    addAsHost: 'Add as host',
    any: 'every initiator',
    chap: { none: 'off', one: 'on', mutual: 'mutual' },
    empty: 'A host is a computer that may see volumes. Add one by the name of its initiator.',
    filter: 'Filter hosts',
    noMatch: 'No host matches.',
    views: 'Hosts or host groups',
    paths: 'Paths',
    groups: 'Groups',
    volumesOf: (name: string) => `Volumes of ${name}`,
    noVolumes: 'No volume is connected to this host.',
  },
  hostGroup: {
    kicker: 'Host group',
    title: 'Host groups',
    summary: (hosts: number, volumes: number) =>
      `${plural(hosts, 'host', 'hosts')}, ${plural(volumes, 'volume', 'volumes')}`,
    count: (n: number) => plural(n, 'group', 'groups'),
    empty:
      'All hosts of a group see the volumes of the group at the same LUN. A cluster of ESXi hosts is a group.',
    gone: 'There is no such host group.',
    back: 'All host groups',
    hosts: 'Hosts',
    noHosts: 'No host is in this group.',
    volumes: 'Volumes',
    noVolumes: 'No volume is connected to this group.',
    notEmpty: 'A group with hosts or volumes cannot be deleted.',
    paths: (connected: number, used: number) =>
      used === 0 ? 'not logged in' : `${count(connected)} of ${count(used)} paths`,
    shared: (group: string) => `by ${group}`,
  },
  pods: {
    kicker: 'Storage',
    title: 'Pods',
    summary: (n: number) => plural(n, 'pod', 'pods'),
    matching: (n: number) => `${plural(n, 'pod matches', 'pods match')}`,
    stretched: (n: number) => (n === 0 ? '' : `, ${count(n)} on two arrays`),
    views: 'Pods or connected arrays',
    filter: 'Filter pods',
    filterHint: "a word, or: name='dc*' and stored > 20G",
    columns: {
      name: 'Pod',
      volumes: 'Volumes',
      size: 'Size',
      quota: 'Quota',
      stored: 'Stored',
      arrays: 'Arrays',
      state: 'State',
    },
    quotaUsed: (part: string) => `${part} of it in use`,
    row: (volumes: number, size: string) => `${plural(volumes, 'volume', 'volumes')}, ${size}`,
    empty:
      'A pod is a container of volumes with names of its own. It can have a quota, be cloned or destroyed as a whole, and be on two arrays that serve it at the same time.',
    emptyDestroyed: 'Destroyed pods wait here until they are eradicated. There are none.',
    noMatch: 'No pod matches this filter.',
  },
  pod: {
    kicker: 'Pod',
    gone: 'There is no such pod.',
    back: 'All pods',
    size: (volumes: string) => `${volumes} of volumes`,
    destroyed: (time: string) => `Destroyed with its volumes. Recoverable for ${time}.`,
    space: 'Space and quota',
    used: 'Sizes of its volumes',
    quota: 'Quota',
    noQuota: 'none',
    overQuota: 'The volumes exceed the quota: they can shrink and leave; none can be added or grow.',
    written: 'Written by hosts',
    stored: 'Stored, reduced',
    created: 'Created',
    source: 'Cloned from',
    arrays: 'Arrays',
    thisArray: 'this array',
    preferred: 'Preferred at a tie',
    notPreferred: 'none: no other array serves the pod',
    mediator: 'Mediator',
    notAsked: 'not asked',
    onlyHere: (array: string) =>
      `Its data is on ${array} only. While ${array} does not serve, hosts cannot use these volumes. A connected array can have the pod as well.`,
    resyncLimit: 'Resync limit',
    noResyncLimit: 'none',
    perSecond: (size: string) => `${size}/s`,
    connected: 'A volume of it is connected, so it cannot be destroyed.',
    stretchedDestroy: (array: string) =>
      `It is on two arrays. Remove it from ${array} before it is destroyed.`,
    stretchedMove: 'It is on two arrays: volumes move neither into nor out of it.',
    stretchedClone: 'It is on two arrays: its volumes are copied only within it.',
    volumes: 'Volumes',
    noVolumes: 'The pod has no volumes yet.',
    filter: 'Filter volumes of the pod',
    inVolumes: 'Show among all volumes',
    volume: (size: string, stored: string, hosts: number) =>
      `${size}, ${stored} stored, ${plural(hosts, 'host', 'hosts')}`,
    performance: 'Performance',
  },
  /** Pods on two arrays. */
  replication: {
    states: {
      sync: 'in step',
      paused: 'paused',
      solo: 'on one array alone',
      resync: 'coming into step',
      target: 'receiving content',
      lost: 'yielded to the other array',
      hurt: 'has lost changes',
      diverged: 'diverged',
      leaving: 'being removed',
    },
    since: (time: string) => `since ${time}`,
    roles: {
      orders: 'orders changes',
      follows: 'serves the same volumes',
      alone: 'serves alone',
      receives: 'receives what it lacks',
      off: 'does not serve',
      unknown: 'not known whether it serves',
    },
    full: 'has too little free space to return',
    frozen: (time: string) => `its content is of ${time}`,
    simulated: 'simulated distance',
    receiving: 'Content arrives.',
    arrived: (percent: string) => `${percent} has arrived`,
    toGo: (size: string) => `${size} to go`,
    timeLeft: (time: string) => `about ${time} left`,
    atMost: (rate: string) => `at most ${rate}`,
    tieRule: 'If the arrays lose each other',
    mediatorDecides: 'the mediator decides',
    onlyContinues: (array: string) => `only ${array} may continue`,
    notInForce: (rule: string) => `${rule}, not yet in force on both arrays`,
    noMediator: 'none',
    mediatorStates: {
      online: 'answers',
      unreachable: 'does not answer',
    } as Record<string, string>,
    waiting: 'Commands that wait',
    orderedThere: (array: string) => `${array} orders the changes of the pod: do this there.`,
    events: 'Recent events',
    eventsNote: 'as this array has seen them',
    noEvents: 'Nothing has happened since the array started.',
  },
  links: {
    kicker: 'Storage',
    title: 'Connected arrays',
    summary: (n: number) => plural(n, 'connected array', 'connected arrays'),
    note: 'Pods on two arrays send their changes over these links.',
    empty:
      'Two arrays connect with a key. Make one on the array that serves with --link, and connect from the other. Pods can then be stretched over both.',
    status: {
      connected: 'connected',
      partially_connected: 'without its data connection',
      connecting: 'not connected',
    } as Record<string, string>,
    since: (time: string) => `since ${time}`,
    thisArray: 'this array',
    makes: 'makes the link',
    accepts: 'accepts the link',
    listens: (address: string) => `reached at ${address}`,
    connects: (address: string) => `connects from ${address}`,
    connectsHere: 'connects to this array',
    roundTrip: 'round trip',
    between: (least: string, most: string) => `${least} to ${most}`,
    noSession: 'no session',
    traffic: (out: string, into: string) => `${out} sent, ${into} received`,
    simulated: 'Simulated distance:',
    simulatedParts: {
      rtt: (time: string) => `${time} added to each round trip`,
      jitter: (time: string) => `up to ${time} more at random`,
      rate: (rate: string) => `at most ${rate}`,
      in: 'nothing arrives here',
      out: 'nothing leaves here',
      both: 'cut in both directions',
    },
    version: 'Version',
    clock: 'Its clock',
    clockEven: 'within 50 ms of this one',
    clockAhead: (time: string) => `${time} ahead of this one`,
    clockBehind: (time: string) => `${time} behind this one`,
    sessions: 'Sessions since the start',
    certificate: 'Certificate, SHA-256',
    test: {
      rtt: 'Round trip',
      loaded: 'Round trip under load',
      median: (median: string, least: string, most: string) => `${median}, from ${least} to ${most}`,
      sent: 'Rate to it',
      received: 'Rate from it',
      heartbeats: 'Heartbeats',
      answered: (sent: number, lost: number) => `${count(sent)} sent, ${count(lost)} without an answer`,
      simulated: 'The figures include a simulated distance.',
      running: 'Measuring…',
    },
  },
  protection: {
    groups: 'Protection groups',
    groupsNote: 'snapshots of several volumes at one instant',
    volumes: 'Volumes with snapshots',
    noGroups:
      'A protection group takes snapshots of its volumes by a schedule and keeps them for a time that you choose.',
    noMatch: 'No group or volume matches this filter.',
    filter: 'Filter groups and volumes',
    groupRow: (volumes: number, snapshots: number, last: string) =>
      `${plural(volumes, 'volume', 'volumes')}, ${plural(snapshots, 'snapshot', 'snapshots')}, latest ${last}`,
    schedule: ({ enabled, frequency, at }: Schedule) => {
      if (!enabled) return 'No schedule';
      const every =
        frequency === DAY
          ? 'Every day'
          : frequency === 3_600_000
            ? 'Every hour'
            : `Every ${isWholeDays(frequency) ? plural(frequency / DAY, 'day', 'days') : duration(frequency)}`;
      return at === null ? every : `${every} at ${timeOfDay(at)} UTC`;
    },
    retention: ({ all_for_sec, per_day, days }: Retention) => {
      const all = `keeps all for ${duration(all_for_sec * 1000)}`;
      return per_day === 0 || days === 0
        ? all
        : `${all}, then ${count(per_day)} a day for ${plural(days, 'day', 'days')}`;
    },
    plan: (schedule: Schedule, retention: Retention): string =>
      `${text.protection.schedule(schedule)}; ${text.protection.retention(retention)}.`,
    kept: (n: number) => `That is at most ${plural(n, 'snapshot', 'snapshots')} of each volume.`,
    next: (time: string) => `Next in ${time}.`,
    due: 'Next within a minute.',
    kicker: 'Storage',
    title: 'Protection',
    summary: (snapshots: number, covered: number, without: number) =>
      `${plural(snapshots, 'snapshot', 'snapshots')} of ${plural(covered, 'volume', 'volumes')}.${
        without === 0 ? '' : ` ${plural(without, 'volume has', 'volumes have')} none.`
      }`,
    row: (n: number, last: string) => `${plural(n, 'snapshot', 'snapshots')}, latest ${last}`,
    empty: 'A snapshot keeps the content of a volume at one moment. There are none yet.',
    toVolumes: 'Choose volumes',
    now: 'now',
  },
  group: {
    kicker: 'Protection group',
    gone: 'There is no such protection group.',
    back: 'All groups',
    plan: 'Schedule and retention',
    volumes: 'Volumes',
    noVolumes: 'This group has no volumes yet, so it takes no snapshots.',
    snapshots: 'Snapshots',
    noSnapshots: 'There are none yet.',
    size: (volumes: string) => `${volumes} of volumes`,
    member: (snapshots: number) => plural(snapshots, 'snapshot', 'snapshots'),
    destroyed: (time: string) => `Destroyed with its snapshots. Recoverable for ${time}.`,
    restorable: (n: number, all: number) =>
      n === all
        ? `restores all ${plural(n, 'volume', 'volumes')}`
        : `restores ${count(n)} of ${plural(all, 'volume', 'volumes')}`,
    filter: 'Filter volumes of the group',
    none: 'none of its volumes is in the group now',
  },
  host: {
    kicker: 'Host',
    gone: 'There is no such host.',
    back: 'All hosts',
    paths: 'Paths',
    performance: 'Performance',
    port: 'Port',
    from: 'From',
    since: 'Since',
    digests: 'Digests',
    chap: 'CHAP',
    sessions: 'Sessions',
    noSession: 'The host is not logged in.',
    header: 'header',
    data: 'data',
    noDigest: 'none',
    ended: 'Ended sessions',
    endedNote: 'since the array started',
    between: (from: string, to: string) => `${from} → ${to}`,
    initiator: 'Initiator',
    personality: 'Personality',
    preferred: 'Preferred arrays',
    group: 'Host group',
    noGroup: 'none',
    leave: 'Leave',
    busy: (iops: string, latency: string) => `${iops} IOPS, ${latency}`,
    idle: 'idle',
    lost: 'A session ended without a logout and has not come back. If the other hosts have this path, look at the cable, the switch and the network card of this host.',
    out: 'The host has logged out of all ports, so it cannot reach its volumes.',
    loginAgain: (system: string) => `To log in again, on the host (${system}):`,
  },
  first: {
    kicker: (array: string) => `Array ${array}`,
    title: 'Three steps to the first disk.',
    sub: (free: string) => `${free} are free. Everything here is also a command; each step shows it.`,
    readOnly:
      'Your role does not make volumes and hosts. The commands show what an administrator with the role storage_admin does.',
    step1: 'Make a volume',
    step1Note: 'It takes no space until something is written to it, so be generous with its size.',
    make: 'Make volume',
    made: (name: string) => `${name} exists.`,
    step2: 'Say which host may see it',
    step2Note: 'A host is known by the name of its initiator. Find it on the host:',
    admit: 'Add and connect',
    connected: (host: string, volume: string) => `${host} sees ${volume}.`,
    system: 'Operating system of the host',
    step3: 'Log in from the host',
    step3Note: (portals: number) =>
      portals > 1
        ? `The array answers at ${portals} addresses; using all of them gives as many paths.`
        : 'The array answers at one address.',
    loopback:
      'The array listens on loopback only, so just its own machine can log in. Other hosts need: ibid serve --iscsi ADDRESS:3260',
    waiting: 'Waiting for the first write of a host.',
    arrived: (size: string) => `${size} written. The disk works.`,
    after: {
      ESXi: 'Then, in vSphere: Storage, New datastore, VMFS, and the disk named IBID.',
      Linux: 'Then make a file system and mount it:',
      Windows: 'Then initialise the disk named IBID Volume in Disk Management.',
      Proxmox: 'Then make a volume group on the disk and add it as LVM storage:',
    },
  },
  alerts: {
    kicker: 'Array',
    title: 'Alerts',
    open: 'Open',
    closed: 'Closed since the start',
    none: 'No open alerts.',
    noneClosed: 'No alert has been closed since the array started.',
    since: (time: string) => `since ${time}`,
    closedAfter: (time: string, length: string) => `${time}, lasted ${length}`,
    severity: { critical: 'Critical', warning: 'Warning', info: 'Information' } as Record<string, string>,
    remedy: {
      1: { label: 'Show destroyed volumes', to: '/volumes', search: { destroyed: true } },
      2: { label: 'Show the volume' },
      3: { label: 'Show the scrub', to: '/array' },
      12: { label: 'Show destroyed volumes', to: '/volumes', search: { destroyed: true } },
      16: { label: 'Show the link', to: '/array-connections' },
      ...Object.fromEntries(POD_ALERTS.map((code) => [code, { label: 'Show the pod', isPod: true }])),
    } as Record<number, Remedy>,
  },
  activity: {
    kicker: 'Array',
    title: 'Activity',
    sub: 'Changes by administrators; alerts and sessions of hosts since the array started. Latest first.',
    changed: 'Changed',
    by: (user: string, address: string) => `${user} from ${address}`,
    kinds: { all: 'All', change: 'Changes', alert: 'Alerts', session: 'Sessions', refused: 'Refused logins' },
    choose: 'Kind of activity',
    empty: 'Nothing has happened since the array started.',
    none: 'Nothing of this kind has happened since the array started.',
    opened: 'Alert opened',
    closed: 'Alert closed',
    loggedIn: 'Logged in',
    loggedOut: 'Logged out',
    lost: 'Session ended',
    refused: 'Login refused',
    unknownHost: 'initiator without a host',
    attempts: (n: number) => plural(n, 'attempt', 'attempts'),
    shown: (shown: number, all: number) => `The latest ${count(shown)} of ${count(all)}.`,
  },
  lab: {
    kicker: 'Lab',
    title: 'Lab reports',
    titleOf: (identity: string) => `Report of ${identity}`,
    none: 'A report of ibid-host lab: what was measured, beside what is published.',
    sub: (begun: string, took: string) => `Begun ${begun}, took ${took}.`,
    open: 'Open a report',
    file: 'Report file',
    drop: 'Open report.json from this computer, or drop it here. It stays in this browser: the array does not get it.',
    notRead: (name: string) => `${name} is not shown.`,
    faults: (fault: Fault): string => {
      switch (fault.kind) {
        case 'size':
          return 'It is larger than 64 MiB, more than any report. Choose report.json.';
        case 'json':
          return 'It is not JSON, or cut off. Choose report.json from the directory of the option --out.';
        case 'other':
          return 'It is JSON, but not a report of the lab. Choose report.json from the directory of the option --out.';
        case 'version':
          return `Its format has the version ${fault.found}, and this console reads version ${fault.wanted}. Run the lab with the programs of this array.`;
        case 'missing':
          return `It was changed or cut: ${fault.at} is missing. Run the lab again, or restore the file.`;
        case 'unknown':
          return `It was changed: ${fault.at} does not belong to the format. Restore the file.`;
        case 'value':
          return `It was changed: ${fault.at} is ${fault.found}; allowed is ${fault.wanted}. Restore the file.`;
      }
    },
    about: 'About the run',
    target: 'Target',
    disks: 'Disks',
    machine: 'Machine',
    machineOf: (cpus: number, processor: string, memory: string, kernel: string) =>
      `${plural(cpus, 'processor', 'processors')} (${processor}), ${memory} of memory, Linux ${kernel}`,
    run: 'Run',
    runOf: (scale: string, repetitions: number, version: string, revision: string) =>
      `scale ${scale}, ${plural(repetitions, 'repetition', 'repetitions')}, version ${version}, revision ${revision}`,
    verdicts: {
      failed: 'failed',
      not_possible: 'not possible',
      fall_back: 'fall-back measured',
      measured: 'measured',
      goal_met: 'goal met',
      goal_missed: 'goal missed',
      cannot_tell: 'cannot tell',
    },
    goals: { met: 'met', missed: 'missed', cannot_tell: 'cannot tell' },
    endings: { not_possible: 'Not possible with this target.', failed: 'Failed.' },
    notes: {
      unsupported: 'Not supported by this target.',
      extrapolated: 'Extrapolated.',
      left_out: 'Left out.',
      short: 'Samples of less than a second.',
    },
    measured: 'Measured',
    published: 'Published',
    figures: 'Figures',
    figure: 'Figure',
    goal: 'Goal',
    ends: (low: string, high: string) => `${low} to ${high}`,
    at: (place: string) => `at ${place}`,
    source: (document: string, section: string) =>
      [documents[document] ?? document, section].filter((part) => part !== '').join(', '),
    expected: 'Expected',
    seen: 'Result',
    why: 'Why it differs',
    load: (load: { before: number; after: number; busy: number; foreign: number }, took: string) =>
      `Took ${took}. Load average ${load.before} before and ${load.after} after; processors ${Math.round(load.busy)} % busy, ${Math.round(load.foreign)} % by other programs.`,
  },
  settings: {
    kicker: 'Array',
    title: 'Settings',
    sub: 'Each change takes effect at once. Growth, tokens and deleted administrators cannot be undone.',
    save: 'Save',
    array: 'Name',
    name: 'Name of the array',
    nameHint: '1 to 63 letters, digits and -',
    delay: 'Eradication delay',
    delayNote: 'time to recover destroyed objects',
    delayField: 'Delay',
    delayHint: '1 s to 30 d, for example 24h or 7d',
    delayEffect: (kept: string) =>
      `Destroyed volumes hold ${kept} now. The new delay also applies to objects that are destroyed already.`,
    threshold: 'Space warning',
    thresholdNote: 'hosts are warned once when this share of the array is in use',
    thresholdField: 'Percent',
    thresholdHint: '1 to 100, or 0 for no warning',
    scrub: 'Scrub',
    scrubNote: 'reads and verifies all stored data',
    interval: 'Interval',
    intervalHint: '1 h to 366 d, or 0 for never',
    pace: 'Bytes per second',
    paceHint: 'for example 100MiB; at least 1MiB',
    capacity: 'Capacity',
    capacityNote: 'an array can grow, but not shrink',
    capacityField: 'New size of the drive',
    capacityHint: (now: string) =>
      `hosts can fill ${now} now, which is less than the drive; a device must have the new size already`,
    grow: 'Grow',
    admins: 'Administrators',
    adminsNote: 'each with a role and at most one API token',
    self: 'you',
    tokenCreated: (time: string) => `token made ${time}`,
    expires: (time: string) => `valid until ${time}`,
    expired: (time: string) => `expired ${time}`,
    noToken: 'no token',
    newToken: 'New token',
    tokenFirst: 'The token is shown once, so copy it then. It logs in here and authenticates scripts.',
    tokenNote: 'The present token and all its sessions end now, this one too. Scripts need the new token.',
    tokenReplaced: 'The present token and all its sessions end now. Its scripts need the new token.',
    tokenMade: 'Copy the token now. It is not shown again. Then log in with it.',
    tokenMadeFor: (name: string) => `Copy the token now and pass it to ${name}. It is not shown again.`,
    tokenDone: 'I have copied it',
    more: (name: string) => `More actions for ${name}`,
    roles: {
      readonly: 'reads everything',
      ops_admin: 'also starts scrubs',
      storage_admin: 'also changes volumes, snapshots, hosts and groups',
      array_admin: 'changes everything',
    },
    sessions: 'Sessions',
    sessionsNote: 'open logins of administrators, the latest first',
    session: (from: string, time: string) => `from ${from}, logged in ${time}`,
    readOnly: (role: string) => `Your role is ${role}, which does not change settings.`,
    unreadable: 'Write a time such as 24h, 7d or 90min.',
    notPercent: 'Write a whole number from 0 to 100.',
  },
  array: {
    sessions: 'Sessions',
    iops: 'IOPS',
    read: 'Read',
    write: 'Written',
    drives: 'Drives',
    kicker: 'Array',
    identity: 'Identity',
    version: 'Version',
    id: 'Serial number',
    iqn: 'iSCSI name',
    status: 'State',
    states: {
      ok: 'serving',
      degraded: 'serving, degraded',
      stopped: 'stopped',
      'read-only': 'read-only, after a start with --salvage',
    } as Record<string, string>,
    delay: 'Destroyed objects are kept for',
    threshold: 'Warns hosts at',
    never: 'never',
    portals: 'Portals',
    portalsNote: 'where hosts log in; figures of the last two seconds',
    port: 'Port',
    address: 'Address',
    controllers: 'Controller',
    scrub: 'Scrub',
    scrubNote: 'reads and verifies all stored data',
    scrubRunning: (done: string, all: string) => `Running: ${done} of ${all} verified.`,
    scrubLast: 'Last',
    scrubNext: 'Next',
    scrubNever: 'not yet',
    intact: 'No damage is known.',
    damage: (n: number) => `${plural(n, 'damaged place', 'damaged places')} known:`,
  },
  palette: {
    title: 'Search or run a command',
    input: 'Type a page, a volume or a command',
    empty: 'Nothing found.',
    goTo: 'Go to',
    volumes: 'Volumes',
    run: 'Run',
    of: (verb: string, name: string) => `${verb}: ${name}`,
    undo: 'Undo the last change',
    refresh: 'Refresh',
    keys: 'Show keys',
    ownToken: 'New API token for you',
    kinds: {
      volume: 'volume',
      host: 'host',
      hostGroup: 'host group',
      protectionGroup: 'protection group',
      pod: 'pod',
    },
  },
  keys: {
    title: 'Keys',
    isOn: 'Use keys of one letter',
    list: [
      ['Ctrl K', 'Search or run a command'],
      ['/', 'Filter'],
      ['N', 'New volume'],
      ['J K', 'Down and up in a list'],
      ['Space', 'Select'],
      ['Enter', 'Open'],
      ['Z', 'Undo'],
      ['R', 'Refresh'],
      ['G O, G V, G P', 'Overview, volumes, protection'],
      ['G H, G G', 'Hosts, host groups'],
      ['G D, G N', 'Pods, connected arrays'],
      ['G F, G A', 'Performance, array'],
      ['G L, G C, G S', 'Alerts, activity, settings'],
      ['?', 'These keys'],
    ] as [string, string][],
  },
};
