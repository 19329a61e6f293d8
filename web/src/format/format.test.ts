import { describe, expect, it } from 'vitest';
import { OF_PODS, translate } from './filter';
import { commandTime, duration, parseTime, since } from './time';
import { chosenSize, commandSize, count, exactSize, NONE, parseSize, percent, ratio, size } from './units';

const plain = (text: string) => text.replaceAll(/[\u00a0\u202f]/g, ' ');
const TIB = 1024 ** 4;

describe('sizes', () => {
  it('have three significant digits and binary units', () => {
    const shown = [0, 512, 1024, 1536, 10 * 1024, 1023.6 * 1024 ** 2, 1.87 * 1024 ** 5].map((n) =>
      plain(size(n)),
    );
    expect(shown).toEqual(['0 B', '512 B', '1.00 KiB', '1.50 KiB', '10.0 KiB', '1.00 GiB', '1.87 PiB']);
    expect(size(null)).toBe(NONE);
  });
  it('that a person chose have no zeros after the point', () => {
    expect([TIB, 1.5 * TIB, 64 * 1024 ** 3, 100 * TIB].map((n) => plain(chosenSize(n)))).toEqual([
      '1 TiB',
      '1.5 TiB',
      '64 GiB',
      '100 TiB',
    ]);
  });
  it('are exact in tooltips', () => {
    expect(plain(exactSize(TIB))).toBe('1 099 511 627 776 bytes = 1.10 TB');
  });
  it('are parsed as people type them', () => {
    expect(parseSize('1T')).toEqual({ bytes: TIB });
    expect(parseSize(' 1.5 tib ')).toEqual({ bytes: 1.5 * TIB });
    expect(parseSize('4096')).toEqual({ bytes: 4096 });
    expect(parseSize('1TB')).toEqual({ error: 'decimal', suggestion: '1TiB' });
    expect(parseSize('much')).toEqual({ error: 'unreadable' });
    expect(parseSize('')).toEqual({ error: 'empty' });
  });
  it('are short in commands', () => {
    expect([TIB, 1.5 * TIB, 4097].map(commandSize)).toEqual(['1TiB', '1536GiB', '4097']);
  });
});

describe('figures', () => {
  it('are grouped by thousands', () => expect(plain(count(10000))).toBe('10 000'));
  it('are ratios and percentages', () => {
    expect([
      ratio(3.81),
      ratio(412.4),
      plain(percent(1, 1000)),
      plain(percent(799, 1000)),
      percent(1, 0),
    ]).toEqual(['3.8:1', '412:1', '<1 %', '79 %', NONE]);
  });
});

describe('times', () => {
  it('have at most two units', () => {
    expect([5_000, 90_000, 85_680_000, 86_400_000 * 3].map((n) => plain(duration(n)))).toEqual([
      '5 s',
      '1 min',
      '23 h 48 min',
      '3 d',
    ]);
  });
  it('are relative within a day', () => {
    expect(plain(since(1_000_000, 1_120_000))).toBe('2 min');
    expect(since(0, 86_400_000 * 2)).not.toContain('d ');
  });
});

describe('times of settings', () => {
  it('are parsed as people type them', () => {
    expect(['24h', '90 min', '7d', '0', '1.5h', '2m', '24', 'soon', ''].map(parseTime)).toEqual([
      86_400_000,
      5_400_000,
      604_800_000,
      0,
      5_400_000,
      120_000,
      null,
      null,
      null,
    ]);
  });
  it('are short in commands', () => {
    expect([86_400_000, 36_000_000, 90_000, 5_400_000].map(commandTime)).toEqual([
      '1d',
      '10h',
      '90s',
      '90min',
    ]);
  });
});

describe('filters', () => {
  it('take words as parts of names', () => {
    expect(translate('web')).toBe("name='*web*'");
    expect(translate('vdi-* prod')).toBe("name='vdi-*' and name='*prod*'");
    expect(translate('dc1::vm prod/db')).toBe("name='*dc1::vm*' and name='*prod/db*'");
    expect(translate('  ')).toBe('');
  });
  it('translate short names and sizes', () => {
    expect(translate("name='vdi-*' and (written > 20G or not hosts = 0)")).toBe(
      "name = 'vdi-*' and ( space.virtual > 21474836480 or not connection_count = 0 )",
    );
    expect(translate('size>=1.5TiB')).toBe('provisioned >= 1649267441664');
    expect(translate("pod = 'dc1'")).toBe("pod.name = 'dc1'");
    expect(translate('size > 1K and quota < 2T', OF_PODS)).toBe(
      'space.used_provisioned > 1024 and quota_limit < 2199023255552',
    );
  });
  it('leave names of the interface and quoted text alone', () => {
    expect(translate("name='size 20G' and destroyed")).toBe("name = 'size 20G' and destroyed");
    expect(translate('provisioned > 4096')).toBe('provisioned > 4096');
  });
});
