import { describe, expect, it } from 'vitest';
import { asRole, includes, ROLES } from './roles';

describe('roles', () => {
  it('include those before them', () => {
    const allowed = ROLES.map((role) => ROLES.filter((needed) => includes(role, needed)).length);
    expect(allowed).toEqual([1, 2, 3, 4]);
  });
  it('that are unknown are left to the array', () => {
    expect(includes(asRole('pod_admin'), 'array_admin')).toBe(true);
    expect(asRole('readonly')).toBe('readonly');
  });
});
