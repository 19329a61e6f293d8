import { describe, expect, it } from 'vitest';
import { step } from './step';

describe('the focus in lists', () => {
  const links = ['first', 'second', 'third'];
  it('enters at the end that the key leads from', () => {
    expect([step(links, null, 1), step(links, null, -1)]).toEqual(['first', 'third']);
    expect(step(links, 'elsewhere', 1)).toBe('first');
    expect(step([], null, 1)).toBeUndefined();
  });
  it('moves by one and stops at the ends', () => {
    expect([step(links, 'first', 1), step(links, 'third', 1), step(links, 'first', -1)]).toEqual([
      'second',
      'third',
      'first',
    ]);
  });
});
