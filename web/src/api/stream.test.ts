import { describe, expect, it } from 'vitest';
import { isCovered, kindsOf, MessageReader, Waiting } from './stream';

const bytes = (text: string) => new TextEncoder().encode(text);

describe('messages of a stream', () => {
  it('are read from pieces', () => {
    const reader = new MessageReader();
    expect(reader.read(bytes('retry: 3000\nid: 7-1\nevent: res'))).toEqual([]);
    const data = '{"kinds":[],"revision":1}';
    expect(reader.read(bytes(`ync\ndata: ${data}\n\n: heartbeat\n\nid: 7-2\n`))).toEqual([
      { id: '7-1', event: 'resync', data },
      { id: '', event: '', data: '' },
    ]);
    expect(reader.read(bytes('event: change\ndata: {}\n\n'))).toEqual([
      { id: '7-2', event: 'change', data: '{}' },
    ]);
  });
  it('name kinds', () => {
    expect(kindsOf('{"revision":3,"kinds":["volumes","hosts"]}')).toEqual(['volumes', 'hosts']);
    expect([kindsOf('{'), kindsOf('{}'), kindsOf('{"kinds":7}'), kindsOf('')]).toEqual([[], [], [], []]);
  });
});

describe('lists that changed', () => {
  it('are read at once', () => {
    const waiting = new Waiting();
    waiting.add(['audits', 'admins', 'of a later version']);
    expect(waiting.take(0)).toEqual({ paths: new Set(['/audits', '/admins']), next: null });
    expect(waiting.take(0)).toEqual({ paths: new Set(), next: null });
  });
  it('are read at intervals if they change all the time', () => {
    const waiting = new Waiting();
    waiting.add(['performance']);
    expect(waiting.take(1000).paths.has('/arrays/performance')).toBe(true);
    waiting.add(['performance', 'space']);
    const second = waiting.take(3000);
    expect([second.paths.has('/arrays/performance'), second.paths.has('/volumes'), second.next]).toEqual([
      false,
      true,
      3000,
    ]);
    expect(waiting.take(5999)).toEqual({ paths: new Set(), next: 1 });
    expect(waiting.take(6000).paths.has('/arrays/performance')).toBe(true);
    expect(waiting.take(9999)).toEqual({ paths: new Set(), next: null });
  });
  it('are those of the stream, or polled', () => {
    expect(['/volumes', '/arrays/performance', '/iscsi-sessions/refused'].every(isCovered)).toBe(true);
    expect(['/drives', '/arrays/scrub', '/history'].some(isCovered)).toBe(false);
  });
  it('are read at once and polled if they have states and figures', () => {
    const waiting = new Waiting();
    waiting.add(['pods']);
    expect(waiting.take(0).paths.has('/pods/replication')).toBe(true);
    expect(isCovered('/pods/replication')).toBe(false);
  });
});
