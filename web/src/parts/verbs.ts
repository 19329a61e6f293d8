/** The entries of the palette: pages, objects by their names, and what can be done here. */

import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams, useRouterState } from '@tanstack/react-router';
import * as actions from '../actions';
import { commands } from '../actions';
import {
  refresh,
  useAllPods,
  useArrayConnections,
  useConnections,
  useHostGroups,
  useHosts,
  useProtectionGroups,
  useSnapshots,
  useVolume,
  volumeWindow,
} from '../api/queries';
import { includes, type Role } from '../api/roles';
import { useSession } from '../api/session';
import type { ArrayConnection, Host, Pod, ProtectionGroup, Volume } from '../api/types';
import { translate } from '../format/filter';
import * as groups from '../groupActions';
import { linkCommands } from '../linkActions';
import * as pods from '../podActions';
import { podCommands } from '../podActions';
import { isStretched, otherArray, stretchCommands } from '../stretchActions';
import { text } from '../text';
import { leave, useThemeSwitch } from './frame';
import { undoLast } from './notices';
import { open, perform } from './request';

export type Entry = { label: string; command?: string; need?: Role; run: () => unknown };

const MOST_FOUND = 8;
const STORAGE: Role = 'storage_admin';
/** Snapshots of a volume from which it can be restored here: the latest ones. */
const MOST_SNAPSHOTS = 5;

/** The entries whose words contain the typed text, without those that the role does not allow. */
export function matching(entries: Entry[], typed: string, role: Role | null): Entry[] {
  const wanted = typed.toLowerCase().split(/\s+/);
  return entries.filter(({ label, command, need }) => {
    const words = `${label} ${command ?? ''}`.toLowerCase();
    return includes(role, need ?? 'readonly') && wanted.every((word) => words.includes(word));
  });
}

export function useEntries(typed: string): Entry[] {
  const { self } = useSession();
  const here = useHere();
  const fixed = useFixed();
  // A verb may be typed before the name.
  const name = typed.split(/\s+/).at(-1) ?? '';
  const found = useFound(/^[\w.:/-]+$/.test(name) ? name : '');
  return [...matching([...here, ...fixed], typed, self?.role ?? null), ...found];
}

function useFixed(): Entry[] {
  const navigate = useNavigate();
  const switchTheme = useThemeSwitch();
  const { self } = useSession();
  const own = self?.name ?? 'admin';
  return [
    { label: text.nav.overview, run: () => navigate({ to: '/' }) },
    { label: text.nav.volumes, command: 'ibid volume list', run: () => navigate({ to: '/volumes' }) },
    { label: text.nav.protection, command: 'ibid snap list', run: () => navigate({ to: '/protection' }) },
    { label: text.nav.hosts, command: 'ibid host list', run: () => navigate({ to: '/hosts' }) },
    { label: text.hostGroup.title, run: () => navigate({ to: '/host-groups' }) },
    { label: text.nav.pods, command: 'ibid pod list', run: () => navigate({ to: '/pods' }) },
    {
      label: text.nav.arrayConnections,
      command: 'ibid array connections',
      run: () => navigate({ to: '/array-connections' }),
    },
    {
      label: text.nav.performance,
      command: 'ibid volume monitor',
      run: () => navigate({ to: '/performance' }),
    },
    { label: text.nav.lab, command: 'ibid-host lab run', run: () => navigate({ to: '/lab' }) },
    { label: text.nav.arrayAndPorts, command: 'ibid array show', run: () => navigate({ to: '/array' }) },
    { label: text.nav.alerts, command: 'ibid alert list', run: () => navigate({ to: '/alerts' }) },
    { label: text.nav.activity, command: 'ibid admin audit', run: () => navigate({ to: '/activity' }) },
    { label: text.nav.settings, command: 'ibid array set', run: () => navigate({ to: '/settings' }) },
    { label: text.nav.help, run: () => navigate({ to: '/first-run' }) },
    {
      label: text.verbs.create,
      command: 'ibid volume create',
      need: STORAGE,
      run: () => open({ kind: 'create' }),
    },
    {
      label: text.verbs.addHost,
      command: 'ibid host create',
      need: STORAGE,
      run: () => open({ kind: 'host' }),
    },
    { label: text.verbs.newHostGroup, need: STORAGE, run: () => open({ kind: 'hostGroup' }) },
    {
      label: text.titles({ kind: 'protectionGroup', names: [] }),
      need: STORAGE,
      run: () => open({ kind: 'protectionGroup', names: [] }),
    },
    {
      label: text.verbs.newPod,
      command: 'ibid pod create',
      need: STORAGE,
      run: () => open({ kind: 'pod' }),
    },
    {
      label: text.verbs.newKey,
      command: linkCommands.key,
      need: 'array_admin',
      run: () => open({ kind: 'connectionKey' }),
    },
    {
      label: text.verbs.connectArray,
      command: 'ibid array connect',
      need: 'array_admin',
      run: () => open({ kind: 'connectArray' }),
    },
    {
      label: text.verbs.newAdmin,
      command: 'ibid admin create',
      need: 'array_admin',
      run: () => open({ kind: 'admin' }),
    },
    {
      label: text.palette.ownToken,
      command: `ibid admin token ${own}`,
      run: () => open({ kind: 'token', admin: own, hasToken: true, isOwn: true }),
    },
    {
      label: text.verbs.scrub,
      command: 'ibid scrub start',
      need: 'ops_admin',
      run: () => perform(actions.startScrub),
    },
    { label: text.palette.undo, run: undoLast },
    { label: text.palette.refresh, run: refresh },
    { label: text.header.theme, run: switchTheme },
    { label: text.header.logOut, run: leave },
  ];
}

/** Objects whose names contain the typed text. */
function useFound(typed: string): Entry[] {
  const navigate = useNavigate();
  const view = { filter: translate(typed), sort: 'name', destroyed: false };
  const volumes = useQuery({ ...volumeWindow(view, 0), enabled: typed !== '' });
  const [hosts, hostGroups, protection] = [useHosts(), useHostGroups(typed !== ''), useProtectionGroups()];
  const allPods = useAllPods(typed !== '');
  if (typed === '') return [];
  const wanted = typed.toLowerCase();
  const named = (objects: { name: string }[] | undefined) =>
    (objects ?? []).filter(({ name }) => name.toLowerCase().includes(wanted)).slice(0, MOST_FOUND);
  const { kinds } = text.palette;
  return [
    ...named(allPods.data).map(({ name }) => ({
      label: text.verbs.showVolume(name),
      command: kinds.pod,
      run: () => navigate({ to: '/pods/$name', params: { name } }),
    })),
    ...named(volumes.data?.items).map(({ name }) => ({
      label: text.verbs.showVolume(name),
      command: `ibid volume show ${name}`,
      run: () => navigate({ to: '/volumes/$name', params: { name } }),
    })),
    ...named(hosts.data).map(({ name }) => ({
      label: text.verbs.showVolume(name),
      command: `ibid host show ${name}`,
      run: () => navigate({ to: '/hosts/$name', params: { name } }),
    })),
    ...named(hostGroups.data).map(({ name }) => ({
      label: text.verbs.showVolume(name),
      command: kinds.hostGroup,
      run: () => navigate({ to: '/host-groups/$name', params: { name } }),
    })),
    ...named(protection.data).map(({ name }) => ({
      label: text.verbs.showVolume(name),
      command: kinds.protectionGroup,
      run: () => navigate({ to: '/protection/$name', params: { name } }),
    })),
  ];
}

/** What can be done with the object of the page. */
function useHere(): Entry[] {
  const { name = '' } = useParams({ strict: false });
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const of = (page: string) => (path.startsWith(`/${page}/`) ? name : '');
  const [volume, host, group, protection] = [of('volumes'), of('hosts'), of('host-groups'), of('protection')];
  const pod = of('pods');
  const areLinksOpen = path === '/array-connections';
  const links = useArrayConnections(areLinksOpen);
  const allPods = useAllPods(pod !== '');
  const ofVolume = useVolumeVerbs(volume);
  const hosts = useHosts();
  const protections = useProtectionGroups();
  const openHost = hosts.data?.find((one) => host !== '' && one.name === host);
  const openPod = allPods.data?.find((one) => pod !== '' && one.name === pod);
  const openGroup = protections.data?.find((one) => protection !== '' && one.name === protection);
  return [
    ...ofVolume,
    ...(openHost ? hostVerbs(openHost) : []),
    ...(group === '' ? [] : hostGroupVerbs(group)),
    ...(openGroup ? protectionVerbs(openGroup) : []),
    ...(openPod ? podVerbs(openPod) : []),
    ...(areLinksOpen ? (links.data ?? []).flatMap(linkVerbs) : []),
  ];
}

const entry = (verb: string, name: string, run: () => unknown, command?: string): Entry => ({
  label: text.palette.of(verb, name),
  command,
  need: STORAGE,
  run,
});

function useVolumeVerbs(name: string): Entry[] {
  const isOpen = name !== '';
  const volume = useVolume(name, isOpen);
  const connections = useConnections({ volume: name }, isOpen);
  const snapshots = useSnapshots(name, isOpen);
  if (!isOpen || !volume.data) return [];
  const present = (snapshots.data ?? []).filter(({ destroyed }) => !destroyed).slice(0, MOST_SNAPSHOTS);
  return [
    ...volumeVerbs(volume.data),
    ...(connections.data ?? [])
      .filter(({ host_group }) => !host_group.name)
      .map(({ host, lun }) => {
        const from = host.name ?? '';
        return entry(
          `${text.verbs.disconnect} ${from}`,
          name,
          () => perform(() => actions.disconnect({ host: from }, name, lun)),
          commands.disconnect(from, name),
        );
      }),
    ...present.map((snapshot) =>
      entry(
        `${text.verbs.restore} ${snapshot.suffix}`,
        name,
        () => open({ kind: 'restore', volume: name, from: snapshot.name }),
        commands.copy(snapshot.name, name, true),
      ),
    ),
  ];
}

function volumeVerbs(volume: Volume): Entry[] {
  const { name } = volume;
  const names = [name];
  const { verbs } = text;
  if (volume.destroyed) {
    return [
      entry(verbs.recover, name, () => perform(() => actions.recover(names)), commands.recover(names)),
      entry(verbs.eradicate, name, () => open({ kind: 'eradicate', name }), commands.eradicate(names)),
    ];
  }
  return [
    entry(verbs.snapshot, name, () => open({ kind: 'snapshot', names }), commands.snapshot(names, '')),
    entry(verbs.connect, name, () => open({ kind: 'connect', names }), 'ibid host connect'),
    entry(verbs.clone, name, () => open({ kind: 'clone', source: name }), 'ibid volume copy'),
    entry(verbs.protect, name, () => open({ kind: 'protect', names })),
    entry(verbs.move, name, () => open({ kind: 'move', names }), 'ibid volume move'),
    entry(verbs.limits, name, () => open({ kind: 'limits', volume }), 'ibid volume set'),
    entry(verbs.resize, name, () => open({ kind: 'resize', volume }), 'ibid volume resize'),
    entry(verbs.rename, name, () => open({ kind: 'rename', of: 'volume', name }), 'ibid volume rename'),
    entry(verbs.destroy, name, () => perform(() => actions.destroy(names)), commands.destroy(names)),
  ];
}

function hostVerbs(host: Host): Entry[] {
  const { name } = host;
  const { verbs } = text;
  return [
    entry(verbs.attach, name, () => open({ kind: 'attach', to: { host: name } }), 'ibid host connect'),
    entry(verbs.edit, name, () => open({ kind: 'editHost', host }), 'ibid host set'),
    entry(verbs.rename, name, () => open({ kind: 'rename', of: 'host', name }), 'ibid host rename'),
  ];
}

function hostGroupVerbs(name: string): Entry[] {
  const { verbs } = text;
  return [
    entry(verbs.addHosts, name, () => open({ kind: 'addHosts', group: name })),
    entry(verbs.attach, name, () => open({ kind: 'attach', to: { hostGroup: name } })),
    entry(verbs.rename, name, () => open({ kind: 'rename', of: 'hostGroup', name })),
  ];
}

function protectionVerbs(group: ProtectionGroup): Entry[] {
  const { name, destroyed } = group;
  const { verbs } = text;
  if (destroyed) {
    return [
      entry(verbs.recover, name, () => perform(() => groups.setGroupDestroyed(name, false))),
      entry(verbs.eradicate, name, () => open({ kind: 'eradicateGroup', name })),
    ];
  }
  return [
    entry(verbs.snapshot, name, () => open({ kind: 'groupSnapshot', group: name })),
    entry(verbs.addVolumes, name, () => open({ kind: 'addVolumes', group: name })),
    entry(verbs.plan, name, () => open({ kind: 'plan', group })),
    entry(verbs.rename, name, () => open({ kind: 'rename', of: 'protectionGroup', name })),
    entry(verbs.destroy, name, () => perform(() => groups.setGroupDestroyed(name, true))),
  ];
}

function podVerbs(pod: Pod): Entry[] {
  const { name, destroyed } = pod;
  const { verbs } = text;
  if (destroyed) {
    return [
      entry(verbs.recover, name, () => perform(() => pods.recoverPod(name)), podCommands.recover(name)),
      entry(verbs.eradicate, name, () => open({ kind: 'eradicatePod', name }), podCommands.eradicate(name)),
    ];
  }
  return [
    entry(verbs.create, name, () => open({ kind: 'create', pod: name }), 'ibid volume create'),
    entry(verbs.quota, name, () => open({ kind: 'quota', pod }), 'ibid pod set'),
    entry(verbs.rename, name, () => open({ kind: 'rename', of: 'pod', name }), 'ibid pod rename'),
    entry(verbs.resyncLimit, name, () => open({ kind: 'resyncLimit', pod }), 'ibid pod set'),
    ...(isStretched(pod) ? stretchedVerbs(pod) : onOneVerbs(pod)),
  ];
}

/** What can be done with a pod only while it is on one array. */
function onOneVerbs(pod: Pod): Entry[] {
  const { name } = pod;
  const { verbs } = text;
  return [
    entry(verbs.moveIn, name, () => open({ kind: 'moveIn', pod: name }), 'ibid volume move'),
    entry(verbs.clone, name, () => open({ kind: 'clonePod', source: name }), 'ibid pod clone'),
    entry(verbs.stretch, name, () => open({ kind: 'stretch', pod }), 'ibid pod stretch'),
    entry(verbs.destroy, name, () => perform(() => pods.destroyPod(name)), podCommands.destroy(name)),
  ];
}

function stretchedVerbs(pod: Pod): Entry[] {
  const { name } = pod;
  const { verbs } = text;
  const array = otherArray(pod);
  return [
    entry(verbs.prefer, name, () => open({ kind: 'prefer', pod }), 'ibid pod prefer'),
    entry(verbs.mediator, name, () => open({ kind: 'mediator', pod }), 'ibid pod mediator'),
    entry(verbs.resign, name, () => open({ kind: 'resign', pod, array }), stretchCommands.resign(name)),
    entry(
      verbs.unstretch,
      name,
      () => open({ kind: 'unstretch', pod, array }),
      stretchCommands.unstretch(name, array),
    ),
  ];
}

function linkVerbs(link: ArrayConnection): Entry[] {
  const { name, management_address: address } = link;
  const { verbs } = text;
  const own = (verb: string, need: Role, run: () => unknown, command?: string): Entry => ({
    ...entry(verb, name, run, command),
    need,
  });
  const move = own(verbs.address, 'array_admin', () =>
    open({ kind: 'linkAddress', name, address: address ?? '' }),
  );
  return [
    own(verbs.linkTest, 'ops_admin', () => open({ kind: 'linkTest', name }), linkCommands.test(name)),
    own(verbs.distance, 'array_admin', () => open({ kind: 'distance', link }), 'ibid array distance'),
    ...(address === null ? [] : [move]),
    own(
      verbs.disconnect,
      'array_admin',
      () => open({ kind: 'disconnectArray', name }),
      linkCommands.disconnect(name),
    ),
  ];
}
