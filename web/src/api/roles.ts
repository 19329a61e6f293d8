/** Roles of administrators. Each one includes those before it. */

export const ROLES = ['readonly', 'ops_admin', 'storage_admin', 'array_admin'] as const;
export type Role = (typeof ROLES)[number];

export function asRole(value: unknown): Role | null {
  return ROLES.find((role) => role === value) ?? null;
}

/** Whether a role includes another. An unknown role is not judged here, because the array refuses. */
export function includes(role: Role | null, needed: Role): boolean {
  return role === null || ROLES.indexOf(role) >= ROLES.indexOf(needed);
}
