import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { ends, goal, measured, number, seconds, withUnit } from './display';
import { barAt, columns, isLog, range } from './draw';
import { type Plot, parseReport, type Report } from './report';

const PUBLISHED = readFileSync(new URL('../../../docs/lab-data/ibid-small.json', import.meta.url), 'utf8');
/** Two experiments of the published run. */
const SAMPLE = JSON.stringify(JSON.parse(PUBLISHED), (key, value) =>
  key === 'outcomes' ? value.filter(({ id }: { id: string }) => id === 'L2' || id === 'L6') : value,
);
const plain = (text: string) => text.replaceAll(/[\u00a0\u202f]/g, ' ');

function sample(): Report {
  const parsed = parseReport(SAMPLE);
  if ('fault' in parsed) throw new Error(JSON.stringify(parsed.fault));
  return parsed.report;
}

/** The fault of the sample after a change. */
function faultOf(change: (report: ReturnType<typeof JSON.parse>) => void) {
  const report = JSON.parse(SAMPLE);
  change(report);
  const parsed = parseReport(JSON.stringify(report));
  return 'fault' in parsed ? parsed.fault : null;
}

it('reads a published report', () => {
  const all = parseReport(PUBLISHED);
  expect('report' in all && all.report.outcomes.length).toBe(13);
  const { outcomes, subject } = sample();
  expect(outcomes.map(({ id }) => id)).toEqual(['L2', 'L6']);
  expect(subject.identity).toBe('IBID Volume 0001');
});

it('says where a changed report differs', () => {
  expect(faultOf(() => {})).toBe(null);
  expect(faultOf((report) => delete report.machine.cpus)).toEqual({ kind: 'missing', at: 'machine.cpus' });
  expect(faultOf((report) => (report.outcomes[1].more = 1))).toEqual({
    kind: 'unknown',
    at: 'outcomes[1].more',
  });
  expect(faultOf((report) => (report.outcomes[0].findings.figures[1].unit = 'furlongs'))).toMatchObject({
    kind: 'value',
    at: 'outcomes[0].findings.figures[1].unit',
    found: '"furlongs"',
  });
  expect(faultOf((report) => (report.secs = '7'))).toMatchObject({
    at: 'secs',
    found: '"7"',
    wanted: 'number',
  });
  expect(faultOf((report) => (report.begun = 1.5))).toMatchObject({ at: 'begun', wanted: 'integer' });
});

it('checks the parts that the published schema describes in words', () => {
  const [at, quote] = [
    'outcomes[0].findings.plots[0].series[0].role',
    'outcomes[0].published.quotes[0].section',
  ];
  const seriesOf = (report: Report) => report.outcomes[0]?.findings.plots[0]?.series[0];
  expect(faultOf((report) => Object.assign(seriesOf(report) ?? {}, { role: 'other' }))).toMatchObject({ at });
  expect(faultOf((report) => Object.assign(seriesOf(report) ?? {}, { role: { nth: 2 } }))).toBe(null);
  expect(faultOf((report) => delete report.outcomes[0].published.quotes[0].section)).toEqual({
    kind: 'missing',
    at: quote,
  });
  expect(faultOf((report) => (report.outcomes[0].ending = { state: 'failed' }))).not.toBe(null);
  expect(faultOf((report) => (report.outcomes[0].ending = { state: 'failed', reason: 'x' }))).toBe(null);
  expect(faultOf((report) => (report.outcomes[0].findings.figures[0].goal = { at_most: '1' }))).not.toBe(
    null,
  );
});

it('names files that are no reports', () => {
  expect(parseReport('{"schema": 3')).toEqual({ fault: { kind: 'json' } });
  for (const other of ['[]', 'null', '7', '{"items": []}']) {
    expect(parseReport(other)).toEqual({ fault: { kind: 'other' } });
  }
  expect(parseReport('{"schema": 2}')).toEqual({ fault: { kind: 'version', found: '2', wanted: '3' } });
});

it('writes values as the page of the lab does', () => {
  const values = [0.0000042, 0.12, 7, 35.42, 227, 1026, 119.6].map((value) => plain(seconds(value)));
  expect(values).toEqual(['4.2 µs', '120 ms', '7 s', '35.4 s', '3 min 47 s', '17 min 6 s', '2 min 0 s']);
  expect([0, 1300, 12_300, 0.05, 99.96].map((value) => plain(number(value)))).toEqual([
    '0',
    '1300',
    '12 300',
    '0.05',
    '100',
  ]);
  expect(plain(withUnit(20_480, 'mib_per_second'))).toBe('20 GiB/s');
  const figure = {
    name: '',
    unit: 'times' as const,
    measured: 123.15,
    published: 17,
    goal: { at_least: 20 },
    interval: { low: 50.2, high: 584.3 },
    verdict: null,
  };
  expect([measured(figure), ...ends(figure.interval, 'times'), goal(figure.goal, 'times')]).toEqual([
    '100×',
    '100×',
    '600×',
    '≥ 20×',
  ]);
});

const plot = (more: Partial<Plot>): Plot => ({
  title: 'a',
  shape: 'lines',
  x: { label: '', unit: 'count', log: false },
  y: { label: '', unit: 'seconds', log: false },
  places: [],
  series: [],
  bands: [],
  ...more,
});
const point = (x: number, y: number, ends: [number, number] | null = null) => ({ x, y, ends });

it('draws the bars of a group beside each other', () => {
  const bars = plot({
    shape: 'bars',
    places: ['one', 'two'],
    series: [
      { name: 'off', role: 'without', points: [point(0, 4), point(1, 5)] },
      { name: 'on', role: 'with', points: [point(0, 1, [0.5, 9])] },
    ],
  });
  expect(barAt(bars, 0, point(1, 5))).toBeCloseTo(0.825);
  const [places, off, on] = columns(bars);
  expect(places).toHaveLength(3);
  expect([off, on]).toEqual([
    [4, null, 5],
    [null, 1, null],
  ]);
  expect(range(bars, 'x')).toEqual([-0.5, 1.5]);
  expect(range(bars, 'y')[1]).toBeGreaterThan(9);
});

it('draws a logarithmic axis only for positive values', () => {
  const log = { label: '', unit: 'count' as const, log: true };
  const lines = (least: number) =>
    plot({ x: log, series: [{ name: '', role: 'with', points: [point(least, 1), point(64, 2)] }] });
  expect([isLog(lines(1), 'x'), isLog(lines(0), 'x'), isLog(lines(1), 'y')]).toEqual([true, false, false]);
  const [low, high] = range(lines(7), 'x');
  expect(low < 7 && high > 64).toBe(true);
  expect(range(plot({}), 'y').every(Number.isFinite)).toBe(true);
});
