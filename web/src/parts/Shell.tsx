/** The frame of all pages: header, navigation, keys, notices and dialogs. */

import { Modal } from '@mantine/core';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react';
import { follow, useIsCut } from '../api/live';
import { markOutOfDate, refresh, useArray, useOpenAlerts } from '../api/queries';
import { useSession } from '../api/session';
import { clock, timeZone } from '../format/time';
import { cause } from '../pages/sentence';
import { text } from '../text';
import { Name } from './common';
import { leave, useThemeSwitch } from './frame';
import { Icon, type IconName } from './Icon';
import { KeysDialog, useKeys } from './Keys';
import { LoginDialog, LoginPage } from './Login';
import { useOwnRole } from './May';
import { Notices } from './notices';
import { useRequest } from './request';

const [loadDialogs, loadPalette] = [() => import('../forms/Dialogs'), () => import('./Palette')];
const load = () => Promise.all([loadDialogs(), loadPalette()]);
const Dialogs = lazy(() => loadDialogs().then(({ Dialogs }) => ({ default: Dialogs })));
const Palette = lazy(() => loadPalette().then(({ Palette }) => ({ default: Palette })));
/** The dialogs are loaded this long after the first page. */
const LATER_MS = 2000;

type Destination = {
  to:
    | '/'
    | '/volumes'
    | '/protection'
    | '/hosts'
    | '/pods'
    | '/performance'
    | '/lab'
    | '/array'
    | '/alerts'
    | '/activity'
    | '/settings'
    | '/first-run';
  icon: IconName;
  label: string;
};
const OVERVIEW: Destination = { to: '/', icon: 'overview', label: text.nav.overview };
const STORAGE: Destination[] = [
  { to: '/volumes', icon: 'volumes', label: text.nav.volumes },
  { to: '/protection', icon: 'protection', label: text.nav.protection },
  { to: '/hosts', icon: 'hosts', label: text.nav.hosts },
];
const PODS: Destination = { to: '/pods', icon: 'pods', label: text.nav.pods };
const PERFORMANCE: Destination = {
  to: '/performance',
  icon: 'performance',
  label: text.nav.performance,
};
const LAB: Destination = { to: '/lab', icon: 'lab', label: text.nav.lab };
const ARRAY: Destination[] = [
  { to: '/array', icon: 'array', label: text.nav.arrayAndPorts },
  { to: '/alerts', icon: 'alerts', label: text.nav.alerts },
  { to: '/activity', icon: 'activity', label: text.nav.activity },
  { to: '/settings', icon: 'settings', label: text.nav.settings },
];
const HELP: Destination = { to: '/first-run', icon: 'help', label: text.nav.help };

export function Shell() {
  const session = useSession();
  const array = useArray();
  useOwnRole();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [areKeysOpen, setKeysOpen] = useState(false);
  useKeys(
    () => setPaletteOpen(true),
    () => setKeysOpen(true),
  );
  const name = array.data?.name;
  useEffect(() => {
    if (name) document.title = `${name} · ${text.product}`;
  }, [name]);
  const isIn = !session.isOut && name !== undefined;
  useEffect(() => (isIn ? follow(markOutOfDate) : undefined), [isIn]);
  if (session.isOut && !array.data) return <LoginPage />;
  return (
    <>
      <a className="skip" href="#main">
        {text.skip}
      </a>
      <Header openPalette={() => setPaletteOpen(true)} />
      <Silence />
      <Trouble />
      <div className="shell">
        <Side version={array.data?.program_version} />
        <main id="main" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Bottom />
      <Later isOpen={isPaletteOpen}>
        <Palette isOpen={isPaletteOpen} close={() => setPaletteOpen(false)} />
      </Later>
      <OpenDialog />
      <KeysDialog isOpen={areKeysOpen} close={() => setKeysOpen(false)} />
      {session.isOut && <LoginDialog array={name ?? text.login.thisArray} />}
      <Notices />
    </>
  );
}

const PAGE_OF = {
  volume: '/volumes/$name',
  host: '/hosts/$name',
  hostGroup: '/host-groups/$name',
  protectionGroup: '/protection/$name',
  pod: '/pods/$name',
} as const;

/** Parts that are loaded when they open first. They stay, so that they close like any other. */
function Later({ isOpen, children }: { isOpen: boolean; children: ReactNode }) {
  const [isNeeded, setNeeded] = useState(false);
  useEffect(() => {
    if (isOpen) setNeeded(true);
  }, [isOpen]);
  return isNeeded && <Suspense>{children}</Suspense>;
}

/** The dialog of an action. */
function OpenDialog() {
  const request = useRequest();
  const navigate = useNavigate();
  useEffect(() => {
    const timer = setTimeout(() => void load().catch(() => undefined), LATER_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <Later isOpen={request !== null}>
      <Dialogs onRenamed={(kind, name) => navigate({ to: PAGE_OF[kind], params: { name }, replace: true })} />
    </Later>
  );
}

/** Says on every page but the first that writes are not served, and why. */
function Trouble() {
  const array = useArray();
  const alerts = useOpenAlerts();
  const { pathname } = useLocation();
  const status = array.data?.status ?? 'ok';
  const alert = cause(alerts.data ?? []);
  const isServed = status !== 'stopped' && status !== 'read-only' && !alert;
  if (isServed || pathname === '/') return null;
  return (
    <div className="banner" role="alert">
      <span>
        <b>{text.overview.notServed}</b> <bdi>{alert?.summary}</bdi>
      </span>
      <Link className="btn small" to="/alerts">
        {text.nav.alerts}
      </Link>
    </div>
  );
}

/** The navigation of narrow screens: the first pages, and the others in a list. */
function Bottom() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <nav className="bottom" aria-label={text.nav.label}>
        {[OVERVIEW, ...STORAGE].map((item) => (
          <NavLink key={item.to} item={item} />
        ))}
        <button type="button" onClick={() => setOpen(true)} aria-haspopup="dialog">
          <Icon name="more" />
          <span>{text.nav.more}</span>
        </button>
      </nav>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={text.nav.more} zIndex={310}>
        <nav className="more" aria-label={text.nav.more}>
          {[PODS, PERFORMANCE, LAB, ARRAY[0], ...ARRAY.slice(2), HELP].map(
            (item) => item && <NavLink key={item.to} item={item} onClick={() => setOpen(false)} />,
          )}
        </nav>
      </Modal>
    </>
  );
}

function NavLink({ item, onClick }: { item: Destination; onClick?: () => void }) {
  const { pathname } = useLocation();
  // Some pages have addresses of their own, but are reached from another one.
  const isWithin =
    (item.to === '/hosts' && pathname.startsWith('/host-groups')) ||
    (item.to === '/pods' && pathname.startsWith('/array-connections'));
  return (
    <Link
      to={item.to}
      aria-current={isWithin ? 'page' : undefined}
      activeOptions={{ exact: item.to === '/' }}
      title={item.label}
      aria-label={item.label}
      onClick={onClick}
    >
      <Icon name={item.icon} />
      <span>{item.label}</span>
    </Link>
  );
}

function Side({ version }: { version: string | undefined }) {
  return (
    <nav className="side" aria-label={text.nav.label}>
      <NavLink item={OVERVIEW} />
      <p className="group">{text.nav.storage}</p>
      {[...STORAGE, PODS].map((item) => (
        <NavLink key={item.to} item={item} />
      ))}
      <p className="group">{text.nav.insight}</p>
      <NavLink item={PERFORMANCE} />
      <NavLink item={LAB} />
      <p className="group">{text.nav.array}</p>
      {ARRAY.map((item) => (
        <NavLink key={item.to} item={item} />
      ))}
      <p className="group" />
      <NavLink item={HELP} />
      {version && <footer>{text.footer(version, timeZone())}</footer>}
    </nav>
  );
}

function Header({ openPalette }: { openPalette: () => void }) {
  const session = useSession();
  const array = useArray();
  const alerts = useOpenAlerts();
  const switchTheme = useThemeSwitch();
  const isCut = useIsCut();
  const open = alerts.data?.length ?? 0;
  return (
    <header className="top">
      <Link className="mark" to="/" aria-label={`${text.product}, ${text.nav.overview}`}>
        {text.product}
        <b>.</b>
      </Link>
      <span className="array-name" title={array.data?.name}>
        {array.data && <Name>{array.data.name}</Name>}
      </span>
      <button type="button" className="search" onClick={openPalette} title={text.header.search}>
        <Icon name="search" />
        <span>{text.header.search}</span>
        <kbd>Ctrl K</kbd>
      </button>
      <div className="tools">
        <Self />
        <span className={`live${session.silentSince ? ' silent' : ''}`} role="status">
          <i />
          {session.silentSince
            ? text.header.silent(clock(session.silentSince))
            : isCut
              ? text.header.polled
              : text.header.live}
        </span>
        <Link
          className="icon-button"
          to="/alerts"
          aria-label={text.header.alerts(open)}
          title={text.header.alerts(open)}
        >
          <Icon name="alerts" />
          {open > 0 && <span className="badge">{open}</span>}
        </Link>
        <button
          type="button"
          className="icon-button"
          aria-label={text.header.theme}
          title={text.header.theme}
          onClick={switchTheme}
        >
          <Icon name="theme" />
        </button>
        <button
          type="button"
          className="icon-button"
          aria-label={text.header.logOut}
          title={text.header.logOut}
          onClick={leave}
        >
          <Icon name="logout" />
        </button>
      </div>
    </header>
  );
}

/** The administrator of the session, if it is not one that may change everything. */
function Self() {
  const { self } = useSession();
  if (!self?.role || self.role === 'array_admin') return null;
  return (
    <Link className="chip self" to="/settings" title={text.header.self(self.name, self.role)}>
      {text.header.roles[self.role]}
    </Link>
  );
}

/** Says since when the array has not answered. */
function Silence() {
  const { silentSince } = useSession();
  if (!silentSince) return null;
  return (
    <div className="banner" role="alert">
      <span>{text.errors.silent(clock(silentSince))}</span>
      <button type="button" className="btn small" onClick={refresh}>
        {text.errors.tryNow}
      </button>
    </div>
  );
}
