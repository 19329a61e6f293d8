import { describe, expect, it } from 'vitest';
import { callText } from './actions';
import type { Pod } from './api/types';
import { readResyncLimit } from './forms/quota';
import {
  isStretched,
  mediatorOf,
  otherArray,
  preferredOf,
  stretchCalls,
  stretchCommands,
} from './stretchActions';

const MIB = 2 ** 20;
const alone = { mediator: 'purestorage', failover_preferences: [], arrays: [{ name: 'alpha' }] };
const both = {
  mediator: '192.0.2.9:8118',
  failover_preferences: [{ name: 'beta' }],
  arrays: [{ name: 'alpha' }, { name: 'beta' }],
};

describe('a pod', () => {
  it('on one array has no mediator and no preference', () => {
    const pod = alone as unknown as Pod;
    expect([isStretched(pod), otherArray(pod), mediatorOf(pod), preferredOf(pod)]).toEqual([
      false,
      '',
      '',
      '',
    ]);
  });
  it('on two arrays has the other one second', () => {
    const pod = both as unknown as Pod;
    expect([isStretched(pod), otherArray(pod), mediatorOf(pod), preferredOf(pod)]).toEqual([
      true,
      'beta',
      '192.0.2.9:8118',
      'beta',
    ]);
  });
});

describe('the resync limit', () => {
  it('is read from 1 MiB to 1 TiB', () => {
    expect(['', '1M', '100MiB', '1T'].map(readResyncLimit)).toEqual([null, MIB, 100 * MIB, 2 ** 40]);
    expect(['1023K', '1025GiB', '100MB', 'fast'].map(readResyncLimit)).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('commands', () => {
  it('name the array and the mediator', () => {
    const { stretch, unstretch, prefer, mediator, resign } = stretchCommands;
    expect(stretch('dc1', 'beta', '192.0.2.9')).toBe('ibid pod stretch dc1 beta --mediator 192.0.2.9');
    expect(stretch('dc1', 'beta', '')).toBe('ibid pod stretch dc1 beta');
    expect(unstretch('dc1', 'beta')).toBe('ibid pod unstretch dc1 beta');
    expect(prefer('dc1', 'beta')).toBe('ibid pod prefer dc1 beta');
    expect(mediator('dc1', '192.0.2.9:8118')).toBe('ibid pod mediator dc1 192.0.2.9:8118');
    expect(mediator('dc1', '')).toBe('ibid pod mediator dc1 none');
    expect(resign('dc1')).toBe('ibid pod resign dc1');
  });
  it('quote the addresses of a cluster', () => {
    expect(stretchCommands.mediator('dc1', 'https://a:2379,https://b:2379')).toBe(
      "ibid pod mediator dc1 'https://a:2379,https://b:2379'",
    );
  });
  it('set and remove the resync limit', () => {
    expect(stretchCommands.resyncLimit('dc1', 100 * MIB)).toBe('ibid pod set dc1 --resync-limit 100MiB');
    expect(stretchCommands.resyncLimit('dc1', null)).toBe('ibid pod set dc1 --resync-limit none');
  });
});

describe('calls', () => {
  it('name one pod and one array', () => {
    const arrays = '/api/2.26/pods/arrays?group_names=dc1&member_names=beta';
    expect(callText(...stretchCalls.stretch('dc1', 'beta', ''))).toBe(`POST ${arrays}`);
    expect(callText(...stretchCalls.stretch('dc1', 'beta', 'm:1'))).toBe(`POST ${arrays}&mediator=m:1`);
    expect(callText(...stretchCalls.unstretch('dc1', 'beta'))).toBe(`DELETE ${arrays}`);
    expect(callText(...stretchCalls.resign('dc1'))).toBe('POST /api/2.26/pods/resign?names=dc1');
  });
  it('change one setting each', () => {
    const bodies = [
      stretchCalls.prefer('dc1', 'beta'),
      stretchCalls.mediator('dc1', ''),
      stretchCalls.resyncLimit('dc1', MIB),
      stretchCalls.resyncLimit('dc1', null),
    ].map(([, , , body]) => body);
    expect(bodies).toEqual([
      { failover_preferences: [{ name: 'beta' }] },
      { mediator: '' },
      { resync_limit: MIB },
      { resync_limit: '' },
    ]);
  });
});
