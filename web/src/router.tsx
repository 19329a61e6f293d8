import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router';
import { asRange, type Range } from './api/history';
import { asKind, type EventKind } from './pages/events';
import { Overview } from './pages/Overview';
import type { PerformanceSearch } from './pages/Performance';
import { ErrorNote } from './parts/common';
import { Shell } from './parts/Shell';
import { text } from './text';

export type RangeSearch = { range?: Range };
export type PodSearch = { f?: string; sort?: string; destroyed?: boolean };
export type VolumeSearch = RangeSearch & { f?: string; sort?: string; destroyed?: boolean; tab?: string };

const asText = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

const rootRoute = createRootRoute({
  component: Shell,
  errorComponent: ({ error }) => (
    <main className="login">
      <div className="card form">
        <h1>{text.errors.pageTitle}</h1>
        <ErrorNote error={error} />
        <a className="btn" href="/console/">
          {text.errors.reload}
        </a>
      </div>
    </main>
  ),
  notFoundComponent: () => <p className="center">{text.errors.notFound}</p>,
});

const withRange = (search: Record<string, unknown>): RangeSearch => ({ range: asRange(search.range) });

const overview = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  validateSearch: withRange,
  component: Overview,
});

const volumes = createRoute({
  getParentRoute: () => rootRoute,
  path: '/volumes',
  validateSearch: (search: Record<string, unknown>): VolumeSearch => ({
    f: asText(search.f),
    sort: asText(search.sort),
    destroyed: search.destroyed === true || undefined,
    tab: asText(search.tab),
    ...withRange(search),
  }),
  component: lazyRouteComponent(() => import('./pages/Volumes'), 'Volumes'),
});

const volume = createRoute({
  getParentRoute: () => volumes,
  path: '$name',
  component: lazyRouteComponent(() => import('./pages/VolumeDrawer'), 'VolumeDrawer'),
});

const pods = createRoute({
  getParentRoute: () => rootRoute,
  path: '/pods',
  validateSearch: (search: Record<string, unknown>): PodSearch => ({
    f: asText(search.f),
    sort: asText(search.sort),
    destroyed: search.destroyed === true || undefined,
  }),
  component: lazyRouteComponent(() => import('./pages/Pods'), 'Pods'),
});

const pod = createRoute({
  getParentRoute: () => rootRoute,
  path: '/pods/$name',
  validateSearch: withRange,
  component: lazyRouteComponent(() => import('./pages/PodPage'), 'PodPage'),
});

const arrayConnections = createRoute({
  getParentRoute: () => rootRoute,
  path: '/array-connections',
  component: lazyRouteComponent(() => import('./pages/ArrayConnections'), 'ArrayConnections'),
});

const protection = createRoute({
  getParentRoute: () => rootRoute,
  path: '/protection',
  validateSearch: withRange,
  component: lazyRouteComponent(() => import('./pages/Protection'), 'Protection'),
});

const hosts = createRoute({
  getParentRoute: () => rootRoute,
  path: '/hosts',
  component: lazyRouteComponent(() => import('./pages/Hosts'), 'Hosts'),
});

const group = createRoute({
  getParentRoute: () => rootRoute,
  path: '/protection/$name',
  component: lazyRouteComponent(() => import('./pages/GroupPage'), 'GroupPage'),
});

const hostGroups = createRoute({
  getParentRoute: () => rootRoute,
  path: '/host-groups',
  component: lazyRouteComponent(() => import('./pages/HostGroups'), 'HostGroups'),
});

const hostGroup = createRoute({
  getParentRoute: () => rootRoute,
  path: '/host-groups/$name',
  component: lazyRouteComponent(() => import('./pages/HostGroups'), 'HostGroupPage'),
});

const host = createRoute({
  getParentRoute: () => rootRoute,
  path: '/hosts/$name',
  validateSearch: withRange,
  component: lazyRouteComponent(() => import('./pages/HostPage'), 'HostPage'),
});

const performance = createRoute({
  getParentRoute: () => rootRoute,
  path: '/performance',
  validateSearch: (search: Record<string, unknown>): PerformanceSearch => ({
    of: search.of === 'hosts' ? 'hosts' : undefined,
    names: asText(search.names),
    ...withRange(search),
  }),
  component: lazyRouteComponent(() => import('./pages/Performance'), 'Performance'),
});

const array = createRoute({
  getParentRoute: () => rootRoute,
  path: '/array',
  component: lazyRouteComponent(() => import('./pages/ArrayPage'), 'ArrayPage'),
});

const alerts = createRoute({
  getParentRoute: () => rootRoute,
  path: '/alerts',
  component: lazyRouteComponent(() => import('./pages/Alerts'), 'Alerts'),
});

const activity = createRoute({
  getParentRoute: () => rootRoute,
  path: '/activity',
  validateSearch: (search: Record<string, unknown>): { kind?: EventKind } => ({ kind: asKind(search.kind) }),
  component: lazyRouteComponent(() => import('./pages/Activity'), 'Activity'),
});

const settings = createRoute({
  getParentRoute: () => rootRoute,
  path: '/settings',
  component: lazyRouteComponent(() => import('./pages/Settings'), 'Settings'),
});

const lab = createRoute({
  getParentRoute: () => rootRoute,
  path: '/lab',
  component: lazyRouteComponent(() => import('./pages/LabReport'), 'LabReport'),
});

const firstRun = createRoute({
  getParentRoute: () => rootRoute,
  path: '/first-run',
  component: lazyRouteComponent(() => import('./pages/FirstRun'), 'FirstRun'),
});

export const router = createRouter({
  routeTree: rootRoute.addChildren([
    overview,
    volumes.addChildren([volume]),
    protection,
    group,
    hosts,
    host,
    hostGroups,
    hostGroup,
    pods,
    pod,
    arrayConnections,
    performance,
    array,
    alerts,
    activity,
    settings,
    lab,
    firstRun,
  ]),
  basepath: '/console',
  defaultPreload: 'intent',
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
