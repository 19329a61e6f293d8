/** Whether the browser has a session, and whether the array answers. */

import { useSyncExternalStore } from 'react';
import { ApiError } from './client';

export type SessionState = { isOut: boolean; silentSince: number | null };

let state: SessionState = { isOut: false, silentSince: null };
const listeners = new Set<() => void>();

function set(next: SessionState) {
  if (next.isOut === state.isOut && next.silentSince === state.silentSince) return;
  state = next;
  for (const listener of listeners) listener();
}

export function noteAnswer() {
  set({ isOut: false, silentSince: null });
}

export function noteFailure(error: unknown) {
  if (!(error instanceof ApiError)) return;
  if (error.status === 401) set({ isOut: true, silentSince: null });
  else if (error.status === 0 || error.status >= 502)
    set({ ...state, silentSince: state.silentSince ?? Date.now() });
}

export function endSession() {
  set({ isOut: true, silentSince: null });
}

export function useSession(): SessionState {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}
