import { expect, it } from 'vitest';
import { recipe, SYSTEMS, splitPortal } from './recipes';

const PORTALS = ['192.0.2.10:3260', '[2001:db8::1]:3261'];
const TARGET = 'iqn.2026-11.org.example:a';

it('has the addresses of the array for every system', () => {
  for (const system of SYSTEMS) {
    const { logIn } = recipe(system, PORTALS, TARGET, 'AB');
    expect(logIn).toContain('192.0.2.10');
  }
  expect(recipe('Linux', PORTALS, TARGET, 'AB').logIn).toContain(`-T ${TARGET} --login`);
  expect(recipe('Linux', PORTALS, TARGET, 'AB').after).toContain('/dev/disk/by-id/wwn-0x624a9370ab');
});

it('splits addresses of both families', () => {
  expect(splitPortal('[2001:db8::1]:3261')).toEqual({ address: '2001:db8::1', port: '3261' });
  expect(splitPortal('192.0.2.10:3260')).toEqual({ address: '192.0.2.10', port: '3260' });
});
