/** What hosts let the array do by reference, without moving data. */

import { useOffloads } from '../api/queries';
import type { Offload } from '../api/types';
import { latency } from '../format/rates';
import { size } from '../format/units';
import { text } from '../text';
import { ErrorNote } from './common';

const KINDS = ['extended_copy', 'write_same', 'compare_and_write', 'unmap'] as const;
type Kind = (typeof KINDS)[number];
export type Sum = { commands: number; errors: number; bytes: number; usec: number };

/** Sums offloads by kind. The latency is the mean over all commands. */
export function sumsOf(offloads: Offload[]): Partial<Record<Kind, Sum>> {
  const sums: Partial<Record<Kind, Sum>> = {};
  for (const { primitive, commands, errors, bytes, usec_per_op } of offloads) {
    const sum = sums[primitive] ?? { commands: 0, errors: 0, bytes: 0, usec: 0 };
    const all = sum.commands + commands;
    sum.usec = all > 0 ? (sum.usec * sum.commands + usec_per_op * commands) / all : 0;
    sum.commands = all;
    sum.errors += errors;
    sum.bytes += bytes;
    sums[primitive] = sum;
  }
  return sums;
}

/** The copied bytes in large, then a row for each kind. */
export function ByReference({ of }: { of: { volume?: string; host?: string } }) {
  const offloads = useOffloads(of);
  if (!offloads.data) return <ErrorNote error={offloads.error} />;
  const sums = sumsOf(offloads.data);
  const copies = sums.extended_copy;
  if (offloads.data.length === 0) {
    return (
      <>
        <p>{text.offloads.none}</p>
        <p className="soft">{text.offloads.noneHint}</p>
      </>
    );
  }
  return (
    <>
      {copies !== undefined && copies.bytes > 0 && (
        <>
          <p className="copied">
            <b>{size(copies.bytes)}</b> {text.offloads.copied}
          </p>
          <p className="soft">
            {text.offloads.copiedNote(text.offloads.copies(copies.commands), size(2 * copies.bytes))}
          </p>
        </>
      )}
      <table className="table offloads">
        <tbody>
          {KINDS.map((kind) => {
            const sum = sums[kind];
            return sum && <Row key={kind} kind={kind} sum={sum} />;
          })}
        </tbody>
      </table>
    </>
  );
}

function Row({ kind, sum }: { kind: Kind; sum: Sum }) {
  const { name, command, done } = text.offloads.kinds[kind];
  const failed = kind === 'compare_and_write' ? text.offloads.notTaken : text.offloads.refused;
  return (
    <tr>
      <th scope="row">
        {name}
        <small>{command}</small>
      </th>
      <td>
        {done(size(sum.bytes), sum.commands - sum.errors)}
        <small>
          {text.offloads.commands(sum.commands, latency(sum.usec))}
          {sum.errors > 0 && ` · ${failed(sum.errors)}`}
        </small>
      </td>
    </tr>
  );
}
