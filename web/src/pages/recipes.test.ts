import { expect, it } from 'vitest';
import { loginAgain, recipe, SYSTEMS, splitPortal } from './recipes';

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

it('knows the operating system by the name of the initiator', () => {
  const systems = [
    'iqn.1998-01.com.vmware:a',
    'iqn.1991-05.com.microsoft:b',
    'iqn.1993-08.org.debian:01:c',
    '*',
  ];
  expect(systems.map((iqn) => loginAgain(iqn, TARGET).system)).toEqual(['ESXi', 'Windows', 'Linux', 'Linux']);
  expect(loginAgain('', TARGET).commands).toContain(`-T ${TARGET} --login`);
});
