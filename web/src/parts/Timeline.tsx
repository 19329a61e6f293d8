/** Points in time on a line. */

import { absolute } from '../format/time';

export type Moment = { key: string; time: number; label: string; isFaint: boolean };

/** The moments of snapshots. Destroyed ones are faint. */
export function momentsOf(snapshots: Taken[]): Moment[] {
  return snapshots.map(({ id, created, suffix, destroyed }) => ({
    key: id,
    time: created,
    label: suffix,
    isFaint: destroyed,
  }));
}
type Taken = { id: string; created: number; suffix: string; destroyed: boolean };

/** Moments closer than this share of the line are drawn as one. */
const NEAREST = 0.004;

/** Moments within the span, without those that another one covers. */
export function placed(moments: Moment[], [from, to]: [number, number]): (Moment & { at: number })[] {
  const shown: (Moment & { at: number })[] = [];
  for (const moment of moments.toSorted((a, b) => a.time - b.time)) {
    const at = (moment.time - from) / (to - from);
    const last = shown.at(-1);
    if (at < 0 || at > 1) continue;
    if (last && at - last.at < NEAREST && last.isFaint === moment.isFaint) shown.pop();
    shown.push({ ...moment, at });
  }
  return shown;
}

export function Timeline({
  moments,
  span,
  label,
}: {
  moments: Moment[];
  span: [number, number];
  label: string;
}) {
  return (
    <div className="timeline" role="img" aria-label={label}>
      {placed(moments, span).map((moment) => (
        <i
          key={moment.key}
          className={moment.isFaint ? 'faint' : ''}
          style={{ left: `${moment.at * 100}%` }}
          title={`${moment.label}, ${absolute(moment.time)}`}
        />
      ))}
    </div>
  );
}
