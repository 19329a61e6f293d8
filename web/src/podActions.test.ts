import { describe, expect, it } from 'vitest';
import type { Pod } from './api/types';
import { readQuota } from './forms/quota';
import { isBelowUsage, nameParts, placeOf, podCommands } from './podActions';

const GIB = 1024 ** 3;

describe('names of volumes', () => {
  it('begin with their pod or volume group', () => {
    expect(nameParts('dc1::vm')).toEqual(['dc1::', 'vm']);
    expect(nameParts('prod/db')).toEqual(['prod/', 'db']);
    expect(nameParts('vm')).toEqual(['', 'vm']);
  });
  it('state a place to which a volume can be moved back', () => {
    expect(placeOf('dc1::vm')).toEqual({ pod: 'dc1' });
    expect(placeOf('prod/db')).toEqual({ volume_group: 'prod' });
    expect(placeOf('vm')).toEqual({ pod: '' });
  });
});

describe('quotas', () => {
  it('are read within their limits', () => {
    expect(readQuota('')).toBe(null);
    expect(readQuota('10TiB')).toBe(10 * 1024 ** 4);
    expect([readQuota('1KiB'), readQuota('5PiB'), readQuota('10TB'), readQuota('much')]).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
  it('are below the usage by the sizes of volumes that are not destroyed', () => {
    const pod = { space: { used_provisioned: 2 * GIB, total_provisioned: 4 * GIB } } as Pod;
    expect([GIB, 2 * GIB, null].map((quota) => isBelowUsage(pod, quota))).toEqual([true, false, false]);
  });
});

describe('commands', () => {
  it('move each volume, of many the first ones', () => {
    expect(podCommands.move(['a', 'b'], 'dc1')).toBe('ibid volume move a dc1\nibid volume move b dc1');
    expect(podCommands.move(['dc1::a'], null)).toBe('ibid volume move dc1::a --out');
    const many = podCommands.move(
      Array.from({ length: 9 }, (_, n) => `v${n}`),
      'dc1',
    );
    expect(many.split('\n')).toHaveLength(9);
    expect(many.endsWith('\n…')).toBe(true);
  });
  it('set and remove quotas', () => {
    expect(podCommands.quota('dc1', null, false)).toBe('ibid pod set dc1 --quota none');
    expect(podCommands.quota('dc1', GIB, true)).toBe('ibid pod set dc1 --quota 1GiB --ignore-usage');
    expect(podCommands.create('dc1', null)).toBe('ibid pod create dc1');
  });
});
