/** All volumes: a list that sorts and filters in the array and keeps only what is visible in the document. */

import { useMediaQuery } from '@mantine/hooks';
import { useQueries } from '@tanstack/react-query';
import { Outlet, useLocation, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type KeyboardEvent, type MouseEvent, memo, useEffect, useMemo, useRef, useState } from 'react';
import * as actions from '../actions';
import { namesOf, volumeWindow, WINDOW } from '../api/queries';
import type { Volume } from '../api/types';
import { translate } from '../format/filter';
import { absolute, day, duration } from '../format/time';
import { chosenSize, ratio, size } from '../format/units';
import { Bar, ErrorNote, Head, Loading, Name, Size } from '../parts/common';
import { DestroyedSwitch, FilterField } from '../parts/filters';
import { Icon } from '../parts/Icon';
import { May, useMay } from '../parts/May';
import { open, perform } from '../parts/request';
import { text } from '../text';

const columns = text.volumes.columns;
/** Volumes of one call, which bounds a snapshot at one instant: their names must fit into the address. */
const MOST_AT_ONCE = 1000;
const ROW = 44;
const NARROW_ROW = 62;
const NARROW = '(max-width: 640px)';

function useRows(filter: string, sort: string, destroyed: boolean, first: number, last: number) {
  const indexes = [];
  for (let index = Math.floor(first / WINDOW); index <= Math.floor(last / WINDOW); index += 1)
    indexes.push(index);
  const view = { filter, sort, destroyed };
  const results = useQueries({ queries: indexes.map((index) => volumeWindow(view, index)) });
  const byWindow = new Map(indexes.map((index, at) => [index, results[at]]));
  // The last known total stays while another window is loaded, so that the list keeps its position.
  const known = useRef<{ of: string; total: number }>({ of: '', total: 0 });
  const of = JSON.stringify(view);
  const answered = results.find((result) => result.data)?.data?.total_item_count;
  if (answered !== undefined && answered !== null) known.current = { of, total: answered };
  const isKnown = known.current.of === of;
  const total = isKnown ? known.current.total : 0;
  const row = (at: number): Volume | undefined =>
    byWindow.get(Math.floor(at / WINDOW))?.data?.items[at % WINDOW];
  return {
    row,
    total,
    isLoading: !isKnown && results.every((result) => result.isLoading),
    error: results.find((result) => result.error)?.error,
  };
}

export function Volumes() {
  const search = useSearch({ from: '/volumes' });
  const { name: opened } = useParams({ strict: false });
  const navigate = useNavigate({ from: '/volumes' });
  const [range, setRange] = useState<[number, number]>([0, 30]);
  const [typed, setTyped] = useState(search.f ?? '');
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const isAllowed = useMay('storage_admin');
  const filter = useMemo(() => translate(search.f ?? ''), [search.f]);
  const sort = search.sort ?? 'name';
  const rows = useRows(filter, sort, search.destroyed ?? false, ...range);
  useEffect(() => setTyped(search.f ?? ''), [search.f]);
  useEffect(() => {
    if (typed === (search.f ?? '')) return;
    const timer = setTimeout(() => {
      navigate({ to: '.', search: (old) => ({ ...old, f: typed || undefined }), replace: true });
    }, 200);
    return () => clearTimeout(timer);
  }, [typed, search.f, navigate]);
  const setDestroyed = (destroyed: boolean) => {
    setSelected(new Set());
    navigate({ to: '/volumes', search: (old) => ({ ...old, destroyed: destroyed || undefined }) });
  };
  const selectAll = async () => {
    const names = await namesOf({ filter, sort, destroyed: search.destroyed ?? false }).catch(() => null);
    if (names) setSelected(new Set(names));
  };
  const setFilter = (f: string) => navigate({ to: '.', search: (old) => ({ ...old, f: f || undefined }) });
  const sub = search.f ? text.volumes.matching(rows.total) : text.volumes.summary(rows.total);
  return (
    <>
      <Head kicker={text.volumes.kicker} title={text.volumes.title} sub={rows.isLoading ? undefined : sub}>
        <div className="acts">
          <DestroyedSwitch isDestroyed={search.destroyed === true} change={setDestroyed} />
          <May>
            <button type="button" className="btn primary" onClick={() => open({ kind: 'create' })}>
              <Icon name="plus" />
              {text.volumes.create}
            </button>
          </May>
        </div>
      </Head>
      <FilterField
        label={text.volumes.filter}
        hint={text.volumes.filterHint}
        value={typed}
        change={setTyped}
      />
      <div className="chips">
        {text.volumes.chips.map(([label, condition]) => (
          <button
            key={label}
            type="button"
            aria-pressed={search.f === condition}
            onClick={() => setFilter(search.f === condition ? '' : condition)}
          >
            {label}
          </button>
        ))}
      </div>
      {rows.error && <ErrorNote error={rows.error} />}
      {rows.isLoading && <Loading />}
      {!rows.isLoading && rows.total === 0 && !rows.error && (
        <Empty
          isFiltered={filter !== ''}
          isDestroyed={search.destroyed === true}
          clear={() => setFilter('')}
        />
      )}
      {rows.total > 0 && (
        <List
          rows={rows}
          sort={sort}
          isDestroyed={search.destroyed === true}
          opened={opened}
          selected={selected}
          setSelected={setSelected}
          setRange={setRange}
        />
      )}
      {selected.size > 0 && isAllowed && (
        <Bulk
          names={[...selected]}
          isDestroyed={search.destroyed === true}
          clear={() => setSelected(new Set())}
          total={rows.total}
          selectAll={selectAll}
        />
      )}
      <Outlet />
    </>
  );
}

function Empty({
  isFiltered,
  isDestroyed,
  clear,
}: {
  isFiltered: boolean;
  isDestroyed: boolean;
  clear: () => void;
}) {
  const isAllowed = useMay('storage_admin');
  if (isFiltered) {
    return (
      <div className="card center">
        <p>{text.volumes.noMatch}</p>
        <button type="button" className="btn" onClick={clear}>
          {text.volumes.clear}
        </button>
      </div>
    );
  }
  return (
    <div className="card center">
      <p>{isDestroyed ? text.volumes.emptyDestroyed : text.volumes.empty}</p>
      {!isDestroyed && isAllowed && (
        <button type="button" className="btn primary" onClick={() => open({ kind: 'create' })}>
          {text.volumes.create}
        </button>
      )}
    </div>
  );
}

type ListProps = {
  rows: ReturnType<typeof useRows>;
  sort: string;
  isDestroyed: boolean;
  opened: string | undefined;
  selected: ReadonlySet<string>;
  setSelected: (names: ReadonlySet<string>) => void;
  setRange: (range: [number, number]) => void;
};

function List({ rows, sort, isDestroyed, opened, selected, setSelected, setRange }: ListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const navigate = useNavigate({ from: '/volumes' });
  const [current, setCurrent] = useState(-1);
  const mayChange = useMay('storage_admin');
  const isNarrow = useMediaQuery(NARROW, false, { getInitialValueInEffect: false });
  const rowHeight = isNarrow ? NARROW_ROW : ROW;
  const virtual = useVirtualizer({
    count: rows.total,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 6,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows of another height are measured again
  useEffect(() => virtual.measure(), [rowHeight]);
  const items = virtual.getVirtualItems();
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  useEffect(() => setRange([first, last]), [first, last, setRange]);
  const toggle = (name: string) => {
    const next = new Set(selected);
    if (!next.delete(name)) next.add(name);
    setSelected(next);
  };
  const show = (name: string) =>
    navigate({ to: '/volumes/$name', params: { name }, search: (old) => old, replace: opened !== undefined });
  const latest = useRef({ toggle, show });
  latest.current = { toggle, show };
  const stable = useMemo(
    () => ({
      toggle: (name: string) => latest.current.toggle(name),
      show: (name: string) => void latest.current.show(name),
    }),
    [],
  );
  const { searchStr } = useLocation();
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement && event.key !== 'Escape') return;
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    const volume = rows.row(current);
    if (step) {
      const next = Math.max(0, Math.min(rows.total - 1, current + step));
      setCurrent(next);
      virtual.scrollToIndex(next);
      const name = rows.row(next)?.name;
      // The drawer follows.
      if (opened && name) show(name);
    } else if (event.key === ' ' && volume && mayChange) toggle(volume.name);
    else if (event.key === 'Enter' && volume && event.target === scroller.current) {
      show(volume.name);
    } else return;
    event.preventDefault();
  };
  return (
    <div className="rows" role="table" aria-label={text.volumes.title} aria-rowcount={rows.total + 1}>
      <Columns sort={sort} isDestroyed={isDestroyed} />
      <div
        className="row-scroll"
        ref={scroller}
        role="rowgroup"
        tabIndex={0}
        onKeyDown={onKeyDown}
        aria-label={text.volumes.title}
      >
        <div style={{ height: virtual.getTotalSize() }} role="presentation">
          {items.map((item) => {
            const volume = rows.row(item.index);
            const state = `${volume?.name === opened ? ' open' : ''}${item.index === current ? ' current' : ''}`;
            return (
              <div
                key={item.key}
                className={`row${state}`}
                role="row"
                aria-rowindex={item.index + 2}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                {volume ? (
                  <Cells
                    volume={volume}
                    isDestroyed={isDestroyed}
                    isSelected={selected.has(volume.name)}
                    mayChange={mayChange}
                    toggle={stable.toggle}
                    show={stable.show}
                    query={searchStr}
                  />
                ) : (
                  <span role="cell" className="soft">
                    …
                  </span>
                )}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

const SORTABLE: [field: string, label: string, className: string][] = [
  ['name', columns.name, ''],
  ['provisioned', columns.size, 'right'],
  ['space.virtual', columns.written, ''],
  ['space.total_physical', columns.stored, 'right'],
  ['space.data_reduction', columns.reduction, 'right lo2'],
  ['connection_count', columns.hosts, 'right lo2'],
  ['created', columns.created, 'lo1'],
];

function Columns({ sort, isDestroyed }: { sort: string; isDestroyed: boolean }) {
  const navigate = useNavigate({ from: '/volumes' });
  const isDown = sort.endsWith('-');
  const sorted = sort.replace(/-$/, '');
  const choose = (field: string) => {
    const isFirstDown = field !== 'name';
    const down = field === sorted ? !isDown : isFirstDown;
    navigate({ to: '.', search: (old) => ({ ...old, sort: `${field}${down ? '-' : ''}` }) });
  };
  return (
    <div role="rowgroup">
      <div className="row-head" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <span className="vh">{text.volumes.select('')}</span>
        </span>
        {SORTABLE.map(([field, label, className]) => (
          <span
            key={field}
            role="columnheader"
            className={className}
            aria-sort={field === sorted ? (isDown ? 'descending' : 'ascending') : undefined}
          >
            <button type="button" onClick={() => choose(field)}>
              {isDestroyed && field === 'created' ? columns.remaining : label}
              {field === sorted && <span aria-hidden="true">{isDown ? ' ↓' : ' ↑'}</span>}
            </button>
          </span>
        ))}
      </div>
    </div>
  );
}

type CellsProps = {
  volume: Volume;
  isDestroyed: boolean;
  isSelected: boolean;
  mayChange: boolean;
  toggle: (name: string) => void;
  show: (name: string) => void;
  query: string;
};

/**
 * The cells of a row, which are drawn again only if they change: while the list scrolls, every row would be. For the same reason
 * the link is a plain one, without the router's own state for each row.
 */
const Cells = memo(({ volume, isDestroyed, isSelected, mayChange, toggle, show, query }: CellsProps) => {
  const open = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    show(volume.name);
  };
  const { space } = volume;
  const written = text.volumes.writtenOf(size(space.virtual), chosenSize(volume.provisioned));
  return (
    <>
      <span role="cell">
        {mayChange && (
          <label className="tick">
            <input
              type="checkbox"
              checked={isSelected}
              onChange={() => toggle(volume.name)}
              aria-label={text.volumes.select(volume.name)}
            />
          </label>
        )}
      </span>
      <span role="cell" className="nowrap">
        <a
          href={`/console/volumes/${encodeURIComponent(volume.name)}${query}`}
          title={volume.name}
          onClick={open}
        >
          <Name>{volume.name}</Name>
        </a>
        <span className="small-only nowrap">{written}</span>
      </span>
      <span role="cell" className="right wide-only nowrap">
        {chosenSize(volume.provisioned)}
      </span>
      <span role="cell" className="wide-only" title={written}>
        <Bar part={space.virtual ?? 0} whole={volume.provisioned} />
        <span className="vh">{size(space.virtual)}</span>
      </span>
      <span role="cell" className="right nowrap">
        <Size bytes={space.total_physical} />
      </span>
      <span role="cell" className="right wide-only lo2">
        {space.virtual ? ratio(space.data_reduction) : text.common.none}
      </span>
      <span role="cell" className="right wide-only lo2">
        {volume.connection_count}
      </span>
      <span role="cell" className="wide-only lo1 nowrap soft" title={absolute(volume.created)}>
        {isDestroyed ? duration(volume.time_remaining ?? 0) : day(volume.created)}
      </span>
    </>
  );
});

type BulkProps = {
  names: string[];
  isDestroyed: boolean;
  clear: () => void;
  total: number;
  selectAll: () => void;
};

function Bulk({ names, isDestroyed, clear, total, selectAll }: BulkProps) {
  const run = (action: () => Promise<actions.Done>) => perform(action).then(clear);
  return (
    <section className="bulk" aria-label={text.volumes.selected(names.length)}>
      <span>{text.volumes.selected(names.length)}</span>
      {names.length < total && (
        <button type="button" className="btn small" onClick={selectAll}>
          {text.volumes.selectAll(total)}
        </button>
      )}
      {isDestroyed ? (
        <button type="button" className="btn small" onClick={() => run(() => actions.recover(names))}>
          {text.verbs.recover}
        </button>
      ) : (
        <>
          <button
            type="button"
            className="btn small"
            disabled={names.length > MOST_AT_ONCE}
            title={names.length > MOST_AT_ONCE ? text.volumes.tooMany(MOST_AT_ONCE) : undefined}
            onClick={() => open({ kind: 'snapshot', names })}
          >
            {text.verbs.snapshot}
          </button>
          <button type="button" className="btn small" onClick={() => open({ kind: 'connect', names })}>
            {text.verbs.connect}
          </button>
          <button
            type="button"
            className="btn small"
            disabled={names.length > MOST_AT_ONCE}
            title={names.length > MOST_AT_ONCE ? text.volumes.tooMany(MOST_AT_ONCE) : undefined}
            onClick={() => open({ kind: 'protect', names })}
          >
            {text.verbs.protect}
          </button>
          <button type="button" className="btn small" onClick={() => open({ kind: 'move', names })}>
            {text.verbs.move}
          </button>
          <button type="button" className="btn small" onClick={() => run(() => actions.destroy(names))}>
            {text.verbs.destroy}
          </button>
        </>
      )}
      <button type="button" className="btn small" onClick={clear} aria-label={text.volumes.clearSelection}>
        <Icon name="close" />
      </button>
    </section>
  );
}
