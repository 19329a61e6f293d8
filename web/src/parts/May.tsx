/** What the role of the administrator allows. Other actions are not offered. */

import { type ReactNode, useEffect } from 'react';
import { useAdmins } from '../api/queries';
import { asRole, includes, type Role } from '../api/roles';
import { noteSelf, useSession } from '../api/session';

export function useMay(needed: Role): boolean {
  const { self } = useSession();
  return includes(self?.role ?? null, needed);
}

/** Shows its children only to administrators with this role or a higher one. */
export function May({ need = 'storage_admin', children }: { need?: Role; children: ReactNode }) {
  return useMay(need) ? children : null;
}

/** Follows changes of the own role, which take effect at once in open sessions. */
export function useOwnRole() {
  const { self } = useSession();
  const admins = useAdmins();
  const found = self && admins.data?.find((admin) => admin.name === self.name);
  const role = asRole(found?.role.name);
  useEffect(() => {
    if (self && role !== null) noteSelf({ name: self.name, role });
  }, [self, role]);
}
