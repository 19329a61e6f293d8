/** The administrator of the browser, whether the session is open, and whether the array answers. */

import { useSyncExternalStore } from 'react';
import { ApiError } from './client';
import { asRole, type Role } from './roles';

export type Self = { name: string; role: Role | null };
export type SessionState = { isOut: boolean; silentSince: number | null; self: Self | null };

/**
 * The session is a cookie that scripts cannot read, and no call returns its administrator. All tabs share
 * the cookie, so they share this name as well.
 */
const KEY = 'ibid-administrator';

function stored(): Self | null {
  try {
    const { name, role } = JSON.parse(localStorage.getItem(KEY) ?? '') as { name: unknown; role: unknown };
    return typeof name === 'string' ? { name, role: asRole(role) } : null;
  } catch {
    return null;
  }
}

let state: SessionState = { isOut: false, silentSince: null, self: stored() };
const listeners = new Set<() => void>();

function set(next: SessionState) {
  const isSame = (Object.keys(next) as (keyof SessionState)[]).every((key) => next[key] === state[key]);
  if (isSame) return;
  state = next;
  for (const listener of listeners) listener();
}

export function noteAnswer() {
  set({ ...state, isOut: false, silentSince: null });
}

export function noteFailure(error: unknown) {
  if (!(error instanceof ApiError)) return;
  if (error.status === 401) set({ ...state, isOut: true, silentSince: null });
  else if (error.status === 0 || error.status >= 502)
    set({ ...state, silentSince: state.silentSince ?? Date.now() });
}

/** Notes the administrator of the session. The name and the role are kept for the other tabs. */
export function noteSelf(self: Self | null) {
  if (self?.name === state.self?.name && self?.role === state.self?.role) return;
  try {
    if (self === null) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, JSON.stringify(self));
  } catch {
    // Without storage, the name is known until the page is loaded again.
  }
  set({ ...state, self });
}

export function endSession() {
  noteSelf(null);
  set({ ...state, isOut: true, silentSince: null });
}

globalThis.addEventListener?.('storage', (event) => {
  if (event.key === KEY || event.key === null) set({ ...state, self: stored() });
});

export function useSession(): SessionState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}
