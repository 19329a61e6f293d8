/** Latency, operations and bandwidth of the array, a volume, a host or a port. */

import { useMemo, useState } from 'react';
import { serverNow } from '../api/client';
import {
  type Columns,
  columnsOf,
  known,
  RANGES,
  type Range,
  type Subject,
  useHistory,
  useLatest,
} from '../api/history';
import { bandwidth, latency, rate } from '../format/rates';
import { absolute, duration } from '../format/time';
import { text } from '../text';
import { Chart, type Series } from './Chart';
import { ErrorNote, Loading } from './common';

const TABLE_ROWS = 40;

export function RangeChoice({ range, choose }: { range: Range; choose: (range: Range) => void }) {
  return (
    <fieldset className="segments ranges">
      <legend className="vh">{text.charts.range}</legend>
      {(Object.keys(RANGES) as Range[]).map((one) => (
        <button key={one} type="button" aria-pressed={one === range} onClick={() => choose(one)}>
          {text.charts.ranges[one]}
        </button>
      ))}
    </fieldset>
  );
}

export function PerformanceCharts({ subject, range }: { subject: Subject; range: Range }) {
  const history = useHistory(subject, range);
  const latest = useLatest(subject);
  const [isTable, setTable] = useState(false);
  const { length, step } = RANGES[range];
  const points = history.data;
  const columns = useMemo(() => columnsOf(points ?? [], step), [points, step]);
  const now = latest.data;
  const series = useMemo(() => {
    const pair = (
      read: (number | null)[],
      write: (number | null)[],
      nowRead: number | null | undefined,
      nowWrite: number | null | undefined,
    ): Series[] => [
      { label: text.charts.read, color: '--read', values: read, now: nowRead },
      { label: text.charts.write, color: '--write', values: write, now: nowWrite },
    ];
    return {
      latency: [
        ...pair(
          columns.readLatency,
          columns.writeLatency,
          now && known(now.usec_per_read_op, now.reads_per_sec),
          now && known(now.usec_per_write_op, now.writes_per_sec),
        ),
        {
          label: text.charts.read99,
          color: '--read',
          values: columns.read99,
          now: now && known(now.usec_p99_per_read_op, now.reads_per_sec),
          isDotted: true,
        },
        {
          label: text.charts.write99,
          color: '--write',
          values: columns.write99,
          now: now && known(now.usec_p99_per_write_op, now.writes_per_sec),
          isDotted: true,
        },
      ],
      rates: pair(columns.reads, columns.writes, now?.reads_per_sec, now?.writes_per_sec),
      bytes: pair(columns.readBytes, columns.writeBytes, now?.read_bytes_per_sec, now?.write_bytes_per_sec),
    };
  }, [columns, now]);
  if (!points) return history.error ? <ErrorNote error={history.error} /> : <Loading />;
  const end = Math.max(serverNow(), points.at(-1)?.time ?? 0);
  const common = { times: columns.times, span: [end - length, end] as [number, number] };
  return (
    <>
      <div className="charts">
        <Chart
          {...common}
          title={text.charts.latency}
          note={text.charts.latencyNote}
          series={series.latency}
          format={latency}
          least={100}
        />
        <Chart
          {...common}
          title={text.charts.operations}
          note={text.charts.perSecond}
          series={series.rates}
          format={rate}
          least={10}
        />
        <Chart
          {...common}
          title={text.charts.bandwidth}
          note={text.charts.perSecond}
          series={series.bytes}
          format={bandwidth}
          least={1024}
          isBinary
        />
      </div>
      <p className="chart-foot soft">
        <span>{begin(points[0]?.time, end - length, step)}</span>
        <button
          type="button"
          className="btn small"
          aria-expanded={isTable}
          onClick={() => setTable(!isTable)}
        >
          {isTable ? text.charts.hideTable : text.charts.showTable}
        </button>
      </p>
      {isTable && <Table columns={columns} />}
    </>
  );
}

/** How coarse the points are, and when they begin if they do not cover the range. */
function begin(first: number | undefined, start: number, step: number): string {
  const coarse = step > 60_000 ? `${text.charts.resolution(duration(step))} ` : '';
  if (first === undefined) return coarse;
  return coarse + (first > start + 2 * step ? text.charts.begins(absolute(first)) : '');
}

/** The same figures as rows, newest first. */
function Table({ columns }: { columns: Columns }) {
  const { times } = columns;
  const each = Math.max(1, Math.ceil(times.length / TABLE_ROWS));
  const rows = times.map((_, at) => at).filter((at) => (times.length - 1 - at) % each === 0);
  return (
    <div className="card scroll-x" role="region" aria-label={text.charts.table} tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th>{text.charts.time}</th>
            {[
              text.charts.readLatency,
              text.charts.writeLatency,
              text.charts.reads,
              text.charts.writes,
              text.charts.readBandwidth,
              text.charts.writeBandwidth,
            ].map((label) => (
              <th key={label} className="right">
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.reverse().map((at) => (
            <tr key={times[at]}>
              <td>{absolute(times[at] ?? 0)}</td>
              <td className="right">{latency(columns.readLatency[at])}</td>
              <td className="right">{latency(columns.writeLatency[at])}</td>
              <td className="right">{rate(columns.reads[at])}</td>
              <td className="right">{rate(columns.writes[at])}</td>
              <td className="right">{bandwidth(columns.readBytes[at])}</td>
              <td className="right">{bandwidth(columns.writeBytes[at])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
