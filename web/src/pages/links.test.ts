import { expect, it } from 'vitest';
import { NO_DISTANCE } from '../linkActions';
import { clockOf, simulated } from './links';

const plain = (text: string) => text.replaceAll('\u00a0', ' ');

it('says how far apart the clocks are', () => {
  expect(clockOf(null)).toBe('–');
  expect(clockOf(-49)).toBe('within 50 ms of this one');
  expect(plain(clockOf(250))).toBe('250 ms ahead of this one');
  expect(plain(clockOf(-7_200_000))).toBe('2 h behind this one');
});

it('says every part of a simulated distance', () => {
  const far = { rtt_usec: 4000, jitter_usec: 500, bytes_per_second: 1024 ** 3, cut: 'in' as const };
  expect(plain(simulated(far))).toBe(
    '4.00 ms added to each round trip, up to 500 µs more at random, at most 1.00 GiB/s, nothing arrives here.',
  );
  expect(plain(simulated({ ...NO_DISTANCE, cut: 'both' }))).toBe('cut in both directions.');
});
