/** Plots of the lab as uPlot draws them: bars in groups, lines, and values over time. */

import type UPlot from 'uplot';
import type { Plot, PlotSeries, Point } from './report';

/** Width of a group of bars; the distance of two groups is 1. */
const GROUP = 0.7;

/** A custom property of the style. */
export function colorOf(role: PlotSeries['role']): string {
  if (role === 'without') return '--sys';
  if (role === 'with') return '--ref';
  return ['--read', '--write', '--snap', '--uniq'][role.nth % 4] ?? '--read';
}

/** Where the bar of a series is drawn, beside those of the others. */
export function barAt(plot: Plot, series: number, point: Point): number {
  const width = GROUP / plot.series.length;
  return point.x + (series - (plot.series.length - 1) / 2) * width;
}

const place = (plot: Plot, series: number, point: Point) =>
  plot.shape === 'bars' ? barAt(plot, series, point) : point.x;

/** The columns of uPlot: all places in order, and a value of each series at each place or none. */
export function columns(plot: Plot): UPlot.AlignedData {
  const placed = plot.series.map((series, index) =>
    series.points.map((point) => [place(plot, index, point), point.y] as const),
  );
  const places = [...new Set(placed.flat().map(([x]) => x))].sort((a, b) => a - b);
  // A line between two points must not be cut by a place that only another series has.
  const absent = plot.shape === 'bars' ? null : undefined;
  const values = placed.map((points) => {
    const at = new Map(points);
    return places.map((x) => at.get(x) ?? absent);
  });
  return [places, ...values] as UPlot.AlignedData;
}

/** The range of an axis: from 0, or around positive values if it is logarithmic. */
export function range(plot: Plot, axis: 'x' | 'y'): [number, number] {
  if (axis === 'x' && plot.shape === 'bars') return [-0.5, Math.max(plot.places.length, 1) - 0.5];
  const all = plot.series.flatMap(({ points }) =>
    points.flatMap((point) => (axis === 'x' ? [point.x] : [point.y, ...(point.ends ?? [])])),
  );
  const [least, most] = all.reduce(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)] as const,
    [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY] as const,
  );
  if (least > most) return [0, 1];
  if (plot[axis].log && least > 0) return [least / 1.2, most * 1.2];
  const from = axis === 'x' && plot.shape !== 'time' ? least : Math.min(0, least);
  const to = axis === 'x' ? most : most * 1.08;
  return to > from ? [from, to] : [from - 1, from + 1];
}

/** Whether an axis can be logarithmic: it has positive values only. */
export function isLog(plot: Plot, axis: 'x' | 'y'): boolean {
  return plot[axis].log && range(plot, axis)[0] > 0;
}

/** Draws the range of each value, from minimum to maximum, and the names of bands of time. */
export function marks(plot: Plot, color: string): (drawn: UPlot) => void {
  return (drawn) => {
    const { ctx, bbox } = drawn;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = color;
    ctx.fillStyle = `${color}22`;
    ctx.lineWidth = devicePixelRatio;
    for (const band of plot.bands) {
      const [from, to] = [drawn.valToPos(band.from, 'x', true), drawn.valToPos(band.to, 'x', true)];
      ctx.fillRect(from, bbox.top, to - from, bbox.height);
    }
    for (const [index, series] of plot.series.entries()) {
      for (const point of series.points) {
        if (!point.ends) continue;
        const x = drawn.valToPos(place(plot, index, point), 'x', true);
        const [low, high] = point.ends.map((end) => drawn.valToPos(end, 'y', true)) as [number, number];
        const half = 3 * devicePixelRatio;
        ctx.beginPath();
        ctx.moveTo(x, low);
        ctx.lineTo(x, high);
        for (const y of [low, high]) {
          ctx.moveTo(x - half, y);
          ctx.lineTo(x + half, y);
        }
        ctx.stroke();
      }
    }
    ctx.restore();
  };
}
