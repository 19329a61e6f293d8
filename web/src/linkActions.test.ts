import { describe, expect, it } from 'vitest';
import { commandMicros, isNear, linkCommands, NO_DISTANCE, parseMicros } from './linkActions';

describe('times of a link', () => {
  it('are read in milliseconds and microseconds', () => {
    expect(['4ms', '500us', '0', '1.5 ms', '20 µs'].map(parseMicros)).toEqual([4000, 500, 0, 1500, 20]);
    expect(['4', '4s', '', 'far'].map(parseMicros)).toEqual([null, null, null, null]);
  });
  it('are short in commands', () => {
    expect([4000, 500, 0].map(commandMicros)).toEqual(['4ms', '500us', '0ms']);
  });
});

describe('commands of a link', () => {
  it('have no key', () => {
    expect(linkCommands.connect('192.0.2.20', '')).toBe('ibid array connect --address 192.0.2.20 --key -');
    expect(linkCommands.connect('192.0.2.20', 'beta')).toContain('connect beta --address');
  });
  it('end a simulation that changes nothing', () => {
    expect(isNear(NO_DISTANCE)).toBe(true);
    expect(linkCommands.distance('beta', NO_DISTANCE)).toBe('ibid array distance beta --off');
    const far = { ...NO_DISTANCE, rtt_usec: 4000, bytes_per_second: 1024 ** 2 };
    expect(linkCommands.distance('beta', far)).toBe(
      'ibid array distance beta --rtt 4ms --jitter 0ms --rate 1MiB --cut none',
    );
  });
});
