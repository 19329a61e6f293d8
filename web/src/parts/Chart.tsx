/** One chart over time: direct values above it, one pointer over all charts of a page, drag to zoom. */

import 'uplot/dist/uPlot.min.css';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useMemo, useRef, useState } from 'react';
import UPlot from 'uplot';
import { roundUp } from '../format/rates';
import { text } from '../text';

export type Series = {
  label: string;
  /** A custom property of the style. */
  color: string;
  values: (number | null)[];
  /** Shown at the right end while no time is pointed at. */
  now?: number | null;
  isDotted?: boolean;
};

type Props = {
  title: string;
  note?: string;
  times: number[];
  span: [from: number, to: number];
  series: Series[];
  format: (value: number | null | undefined) => string;
  isBinary?: boolean;
  /** The vertical axis reaches at least to this. */
  least: number;
};

const HEIGHT = 150;
const GROUP = UPlot.sync('charts');
const DAY_MS = 86_400_000;

const clock = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const clockSeconds = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** The time of a point, as exact as the range needs. */
function timeText(milliseconds: number, [from, to]: Props['span']): string {
  return (to - from <= DAY_MS ? clockSeconds : dateTime).format(milliseconds);
}

/** Points without a neighbour, which no line would show. */
function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const found = [];
  for (let at = 0; at < values.length; at += 1) {
    const has = (index: number) => values[index] !== null && values[index] !== undefined;
    if (has(at) && !has(at - 1) && !has(at + 1)) found.push(at);
  }
  return found;
}

type View = { span: Props['span']; zoom: [number, number] | null };

function options(props: Props, width: number, view: View, setAt: (at: number | null) => void): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color('--soft'),
    font: `11px ${style.getPropertyValue('--sans')}`,
    ticks: { show: false },
    border: { show: false },
  };
  const isDays = () => {
    const [from, to] = view.zoom ?? view.span;
    return to - from > 2 * DAY_MS;
  };
  return {
    width,
    height: HEIGHT,
    ms: 1,
    legend: { show: false },
    padding: [8, 6, 0, 0],
    cursor: {
      y: false,
      sync: { key: GROUP.key, scales: ['x', null] },
      drag: { x: true, y: false, setScale: false },
      points: { size: 7 },
    },
    scales: {
      x: { time: true, range: () => view.zoom ?? view.span },
      y: { range: (_, _least, most) => [0, roundUp(most ?? 0, props.isBinary ?? false, props.least)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        space: 70,
        size: 26,
        values: (_, splits) => splits.map((time) => (isDays() ? date : clock).format(time)),
      },
      {
        ...axis,
        grid: { stroke: color('--line'), width: 1 },
        size: 62,
        splits: (_, _axis, _least, most) => [0, most / 2, most],
        values: (_, splits) => splits.map((value) => (value === 0 ? '0' : props.format(value))),
      },
    ],
    series: [
      {},
      ...props.series.map((series) => ({
        label: series.label,
        stroke: color(series.color),
        width: series.isDotted ? 1.2 : 1.9,
        dash: series.isDotted ? [2, 3] : undefined,
        fill: series.isDotted ? undefined : `${color(series.color)}1a`,
        points: {
          show: true,
          size: 4,
          fill: color(series.color),
          filter: (plot: UPlot, index: number) => isolated(plot.data[index] ?? []),
        },
      })),
    ],
    hooks: {
      setCursor: [(plot) => setAt(plot.cursor.idx ?? null)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          const zoom: [number, number] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')];
          for (const other of GROUP.plots)
            other.root.dispatchEvent(new CustomEvent('zoom', { detail: zoom }));
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
    },
  };
}

export function Chart(props: Props) {
  const { title, note, times, series, span, format } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const view = useRef<View>({ span, zoom: null });
  const [at, setAt] = useState<number | null>(null);
  const scheme = useComputedColorScheme('light');
  const data = useMemo(
    () => [times, ...series.map(({ values }) => values)] as UPlot.AlignedData,
    [times, series],
  );
  view.current.span = span;
  // biome-ignore lint/correctness/useExhaustiveDependencies: data and span are passed on by the next effect
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new UPlot(options(props, element.clientWidth, view.current, setAt), data, element);
    plot.current = made;
    const show = (zoom: View['zoom']) => {
      view.current.zoom = zoom;
      made.setData(made.data);
    };
    const onZoom = (event: Event) => show((event as CustomEvent<[number, number]>).detail);
    const reset = () => {
      for (const other of GROUP.plots) other.root.dispatchEvent(new CustomEvent('zoom', { detail: null }));
    };
    made.root.addEventListener('zoom', onZoom);
    made.over.addEventListener('dblclick', reset);
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [scheme, series.length]);
  useEffect(() => plot.current?.setData(data), [data]);
  const hasValues = series.some(({ values }) => values.some((value) => value !== null));
  const lines = series.filter(({ isDotted }) => !isDotted);
  // The percentile of each line, in the same order.
  const dotted = series.filter(({ isDotted }) => isDotted);
  const shownTime = at === null ? undefined : times[at];
  const summary = series.map(({ label, values, now }) => {
    const most = values.reduce<number | null>(
      (most, value) => (value === null ? most : Math.max(most ?? 0, value)),
      null,
    );
    return text.charts.summary(label, format(now), format(most));
  });
  return (
    <section className="card chart">
      <header>
        <h2>{title}</h2>
        <span className="soft">{shownTime === undefined ? note : timeText(shownTime, span)}</span>
      </header>
      <ul className="chart-values">
        {lines.map(({ label, color, values, now }, index) => (
          <li key={label}>
            <span>
              <i style={{ borderColor: `var(${color})` }} />
              {label}
            </span>
            <b>{format(at === null ? now : values[at])}</b>
            {dotted[index] && (
              <small>
                {text.charts.percentile(format(at === null ? dotted[index].now : dotted[index].values[at]))}
              </small>
            )}
          </li>
        ))}
      </ul>
      <div className="plot" ref={box} role="img" aria-label={`${title}: ${summary.join(', ')}`} />
      {!hasValues && (
        <p className="chart-empty soft">{times.length === 0 ? text.charts.none : text.charts.empty}</p>
      )}
    </section>
  );
}
