import { describe, expect, it } from 'vitest';
import { type Entry, matching } from './verbs';

const entries: Entry[] = [
  { label: 'Volumes', command: 'ibid volume list', run: () => undefined },
  { label: 'New volume', command: 'ibid volume create', need: 'storage_admin', run: () => undefined },
  { label: 'New administrator', need: 'array_admin', run: () => undefined },
];
const labels = (typed: string, role: Parameters<typeof matching>[2]) =>
  matching(entries, typed, role).map(({ label }) => label);

describe('the palette', () => {
  it('finds labels and commands by any of their words', () => {
    expect(labels('', 'array_admin')).toHaveLength(3);
    expect(labels('vol new', 'array_admin')).toEqual(['New volume']);
    expect(labels('VOLUME LIST', 'array_admin')).toEqual(['Volumes']);
    expect(labels('pod', 'array_admin')).toEqual([]);
  });
  it('offers what the role allows', () => {
    expect(labels('', 'readonly')).toEqual(['Volumes']);
    expect(labels('', 'storage_admin')).toEqual(['Volumes', 'New volume']);
    expect(labels('', null)).toHaveLength(3);
  });
});
