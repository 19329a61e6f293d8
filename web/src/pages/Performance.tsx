/** Volumes or hosts side by side over time, and which of them are busy now. */

import { useQueries } from '@tanstack/react-query';
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo, useRef } from 'react';
import { serverNow } from '../api/client';
import { compared, DEFAULT_RANGE, historyOf, RANGES, type Range } from '../api/history';
import { useActive } from '../api/queries';
import { bandwidth, latency, rate } from '../format/rates';
import { HostsSelect, VolumesSelect } from '../forms/Form';
import { Chart, type Series } from '../parts/Chart';
import { Card, ErrorNote, Head, Name } from '../parts/common';
import { RangeChoice } from '../parts/PerformanceCharts';
import { text } from '../text';
import { type Busy, busiest } from './busiest';

/** Lines of a chart that can be told apart. */
const COLORS = ['--read', '--write', '--snap', '--uniq'];
const MOST_ROWS = 20;

export type Compared = 'volumes' | 'hosts';
export type PerformanceSearch = { of?: Compared; names?: string; range?: Range };

export function Performance() {
  const search = useSearch({ from: '/performance' });
  const navigate = useNavigate({ from: '/performance' });
  const active = useActive();
  const of = search.of ?? 'volumes';
  const range = search.range ?? DEFAULT_RANGE;
  const busy = useMemo(
    () => busiest(active.data ?? [], of === 'volumes' ? 'volume' : 'host', MOST_ROWS),
    [active.data, of],
  );
  const first = useFirstBusy(of, busy);
  const chosen = search.names === undefined ? null : search.names.split(',').slice(0, COLORS.length);
  const names = chosen ?? first;
  const shown = [...new Set(names)].filter((name) => name !== '');
  const set = (change: PerformanceSearch) =>
    navigate({ to: '.', search: (old) => ({ ...old, ...change }), replace: true });
  const choose = (names: string[]) => set({ names: names.length > 0 ? names.join(',') : undefined });
  const fields = { value: shown, onChange: choose, most: COLORS.length, hint: text.performance.hint };
  return (
    <>
      <Head kicker={text.nav.insight} title={text.nav.performance} sub={text.performance.sub}>
        <div className="acts">
          <fieldset className="segments">
            <legend className="vh">{text.performance.of}</legend>
            {(['volumes', 'hosts'] as const).map((one) => (
              <button
                key={one}
                type="button"
                aria-pressed={one === of}
                onClick={() => set({ of: one, names: undefined })}
              >
                {text.nav[one]}
              </button>
            ))}
          </fieldset>
          <RangeChoice range={range} choose={(range) => set({ range })} />
        </div>
      </Head>
      <div className="choice">
        {of === 'volumes' ? (
          <VolumesSelect {...fields} label={text.performance.compared} without={[]} />
        ) : (
          <HostsSelect {...fields} label={text.performance.compared} areAll />
        )}
      </div>
      <ErrorNote error={active.error} />
      <div className="grid">
        <div>
          {shown.length === 0 ? (
            <p className="card center">{text.performance.empty}</p>
          ) : (
            <Charts of={of} names={shown} range={range} />
          )}
        </div>
        <BusyNow of={of} busy={busy} />
      </div>
    </>
  );
}

/** The busiest objects when the page was opened. Later ones do not replace them while the page is open. */
function useFirstBusy(of: Compared, busy: Busy[]): string[] {
  const kept = useRef<{ of: Compared; names: string[] }>({ of, names: [] });
  if (kept.current.of !== of) kept.current = { of, names: [] };
  if (kept.current.names.length === 0) {
    kept.current.names = busy.slice(0, COLORS.length).map(({ name }) => name.split('.')[0] ?? '');
  }
  return kept.current.names;
}

function Charts({ of, names, range }: { of: Compared; names: string[]; range: Range }) {
  const results = useQueries({ queries: names.map((name) => historyOf({ kind: of, name }, range)) });
  const { length, step } = RANGES[range];
  const points = results.map(({ data }) => data ?? []);
  const { times, lines } = compared(points, step);
  const series = (key: 'latency' | 'rate' | 'bytes'): Series[] =>
    names.map((label, at) => ({
      label,
      color: COLORS[at] ?? '--uniq',
      values: lines[at]?.[key] ?? [],
      now: lines[at]?.[key].at(-1),
    }));
  const end = Math.max(serverNow(), times.at(-1) ?? 0);
  const common = { times, span: [end - length, end] as [number, number] };
  return (
    <>
      <ErrorNote error={results.find(({ error }) => error)?.error} />
      <div className="charts" key={names.join()}>
        <Chart
          {...common}
          title={text.charts.latency}
          note={text.performance.mean}
          series={series('latency')}
          format={latency}
          least={100}
        />
        <Chart
          {...common}
          title={text.charts.operations}
          note={text.charts.perSecond}
          series={series('rate')}
          format={rate}
          least={10}
        />
        <Chart
          {...common}
          title={text.charts.bandwidth}
          note={text.charts.perSecond}
          series={series('bytes')}
          format={bandwidth}
          least={1024}
          isBinary
        />
      </div>
    </>
  );
}

function BusyNow({ of, busy }: { of: Compared; busy: Busy[] }) {
  return (
    <Card title={text.performance.now} note={text.overview.busiestNote}>
      {busy.length === 0 && <p className="soft">{text.overview.idle}</p>}
      {busy.length > 0 && (
        <section className="scroll-x" aria-label={text.performance.now} tabIndex={0}>
          <table className="table">
            <thead>
              <tr>
                <th>{text.common.name}</th>
                <th className="right">{text.overview.iops}</th>
                <th className="right">{text.overview.bandwidth}</th>
                <th className="right">{text.overview.latency}</th>
                <th>{text.overview.limitedBy}</th>
              </tr>
            </thead>
            <tbody>
              {busy.map((one) => (
                <tr key={one.name}>
                  <td>
                    <Busiest of={of} name={one.name} />
                  </td>
                  <td className="right">{rate(one.iops)}</td>
                  <td className="right">{bandwidth(one.bytes)}</td>
                  <td className="right">{latency(one.usec)}</td>
                  <td>
                    {one.isLimited ? (
                      <span className="chip warning">{text.overview.ownLimit}</span>
                    ) : (
                      <span className="soft">{text.overview.nothing}</span>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Card>
  );
}

function Busiest({ of, name }: { of: Compared; name: string }) {
  if (of === 'hosts') {
    return (
      <Link to="/hosts/$name" params={{ name }}>
        <Name>{name}</Name>
      </Link>
    );
  }
  return (
    <Link to="/volumes/$name" params={{ name: name.split('.')[0] ?? '' }} search={{ tab: 'performance' }}>
      <Name>{name}</Name>
    </Link>
  );
}
