/** One plot of a report: bars in groups, lines, or values over time, with their minimum and maximum. */

import 'uplot/dist/uPlot.min.css';
import { useComputedColorScheme } from '@mantine/core';
import { useEffect, useRef } from 'react';
import UPlot from 'uplot';
import { text } from '../text';
import { seconds, withUnit } from './display';
import { colorOf, columns, isLog, marks, range } from './draw';
import type { Axis, Plot } from './report';

const HEIGHT = 190;
/** Bars up to this number have their values below the plot. */
const MOST_VALUES = 12;

function label(axis: Axis): string | undefined {
  return axis.label === '' ? undefined : axis.label;
}

function options(plot: Plot, width: number): UPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const color = (name: string) => style.getPropertyValue(name).trim();
  const bars = plot.shape === 'bars';
  const axis = {
    stroke: color('--soft'),
    font: `11px ${style.getPropertyValue('--sans')}`,
    labelFont: `11px ${style.getPropertyValue('--sans')}`,
    labelSize: 18,
    ticks: { show: false },
    border: { show: false },
  };
  const scale = (name: 'x' | 'y') => ({
    time: false,
    distr: isLog(plot, name) ? (3 as const) : (1 as const),
    range: () => range(plot, name),
  });
  const groups = plot.places.map((_, index) => index);
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 12, 0, 0],
    scales: { x: scale('x'), y: scale('y') },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        space: 60,
        label: bars ? undefined : label(plot.x),
        ...(bars && {
          splits: () => groups,
          values: () => plot.places.map((place) => shortened(place, width, groups)),
        }),
        ...(!bars && {
          values: (_: UPlot, splits: number[]) =>
            splits.map((value) => (value === null ? '' : withUnit(value, plot.x.unit))),
        }),
      },
      {
        ...axis,
        grid: { stroke: color('--line'), width: 1 },
        size: 68,
        values: (_, splits) =>
          splits.map((value) => (value === null ? '' : value === 0 ? '0' : withUnit(value, plot.y.unit))),
      },
    ],
    series: [
      {},
      ...plot.series.map(({ name, role, points }) => ({
        label: name,
        stroke: color(colorOf(role)),
        width: bars ? 0 : 1.9,
        fill: bars ? color(colorOf(role)) : undefined,
        paths: bars ? UPlot.paths.bars?.({ size: [0.85, 90] }) : undefined,
        points: { show: !bars && points.length < 40, size: 5, fill: color(colorOf(role)) },
      })),
    ],
    hooks: { draw: [marks(plot, color('--ink'))] },
  };
}

/** A name that has the width of its group. */
function shortened(name: string, width: number, groups: number[]): string {
  const most = Math.max(3, Math.floor((width - 80) / Math.max(1, groups.length) / 6.5));
  return name.length > most ? `${name.slice(0, most - 1)}…` : name;
}

/** The value of each bar in words. */
function values(
  plot: Plot,
): { key: string; color: string; name: string; value: string; ends: string | null }[] {
  return plot.series.flatMap(({ name, role, points }) =>
    points.map(({ x, y, ends }) => {
      const place = plot.places.length > 1 ? plot.places[x] : undefined;
      const [low, high] = (ends ?? [y, y]).map((end) => withUnit(end, plot.y.unit));
      return {
        key: `${name} ${x}`,
        color: colorOf(role),
        name: place === undefined ? name : `${name}, ${place}`,
        value: withUnit(y, plot.y.unit),
        ends: low === high ? null : text.lab.ends(low ?? '', high ?? ''),
      };
    }),
  );
}

/** The series of lines, with their last values. */
function lines(plot: Plot) {
  return plot.series.map(({ name, role, points }) => {
    const last = points.at(-1);
    return {
      key: name,
      color: colorOf(role),
      name,
      value: last ? withUnit(last.y, plot.y.unit) : text.common.none,
      ends: last
        ? text.lab.at(plot.x.unit === 'seconds' ? seconds(last.x) : withUnit(last.x, plot.x.unit))
        : null,
    };
  });
}

/** Whether the label of the vertical axis is neither in the title nor below the bars. */
function isNews({ title, y, places }: Plot): boolean {
  return !title.toLowerCase().includes(y.label.toLowerCase()) && !places.includes(y.label);
}

export function LabPlot({ plot }: { plot: Plot }) {
  const box = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme('light');
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colors are those of the scheme
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let drawn = new UPlot(options(plot, element.clientWidth), columns(plot), element);
    const observer = new ResizeObserver(() => {
      if (drawn.width === element.clientWidth) return;
      drawn.destroy();
      drawn = new UPlot(options(plot, element.clientWidth), columns(plot), element);
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
    };
  }, [scheme, plot]);
  const all = plot.shape === 'bars' ? values(plot) : lines(plot);
  const summary = all.map(({ name, value }) => `${name} ${value}`).join(', ');
  return (
    <figure className="lab-plot">
      <figcaption>
        {plot.title}
        {isNews(plot) && <small>{plot.y.label}</small>}
      </figcaption>
      <div className="plot" ref={box} role="img" aria-label={`${plot.title}: ${summary}`} />
      {all.length <= MOST_VALUES && (
        <ul className="chart-values">
          {all.map(({ key, color, name, value, ends }) => (
            <li key={key}>
              <span>
                <i style={{ borderColor: `var(${color})` }} />
                {name}
              </span>
              <b>{value}</b>
              {ends && <small>{ends}</small>}
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}
