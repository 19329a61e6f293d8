/** Which dialog is open, and actions that need none. The dialogs themselves are loaded with the first one. */

import { useSyncExternalStore } from 'react';
import type * as actions from '../actions';
import type { Initiator } from '../actions';
import { refresh } from '../api/queries';
import type { Admin, ArrayConnection, Host, Pod, ProtectionGroup, Volume } from '../api/types';
import { parseSize } from '../format/units';
import { text } from '../text';
import { notify } from './notices';

/** Kinds of objects with a name that can be changed. */
export type Kind = 'volume' | 'host' | 'hostGroup' | 'protectionGroup' | 'pod';

/** Dialogs of protection groups. */
export type GroupRequest =
  | { kind: 'protectionGroup'; names: string[] }
  | { kind: 'plan'; group: ProtectionGroup }
  | { kind: 'addVolumes' | 'groupSnapshot'; group: string }
  | { kind: 'restoreGroup'; snapshot: string; volumes: string[] }
  | { kind: 'eradicateGroup'; name: string };

/** Dialogs of pods and of moves between them. */
export type PodRequest =
  | { kind: 'pod' }
  | { kind: 'clonePod'; source: string }
  | { kind: 'quota'; pod: Pod }
  | { kind: 'moveIn'; pod: string }
  | { kind: 'move'; names: string[] }
  | { kind: 'eradicatePod'; name: string };

/** Dialogs of pods on two arrays. `array` is the other one. */
export type StretchRequest =
  | { kind: 'stretch' | 'prefer' | 'mediator' | 'resyncLimit'; pod: Pod }
  | { kind: 'unstretch' | 'resign'; pod: Pod; array: string };

/** Dialogs of connections to other arrays. */
export type LinkRequest =
  | { kind: 'connectionKey' | 'connectArray' }
  | { kind: 'disconnectArray' | 'linkTest'; name: string }
  | { kind: 'linkAddress'; name: string; address: string }
  | { kind: 'distance'; link: ArrayConnection };

export type Request =
  | GroupRequest
  | PodRequest
  | StretchRequest
  | LinkRequest
  | { kind: 'create'; pod?: string }
  | { kind: 'hostGroup' | 'admin' }
  | { kind: 'host'; iqn?: string }
  | { kind: 'editHost'; host: Host }
  | { kind: 'addHosts'; group: string }
  | { kind: 'attach'; to: Initiator }
  | { kind: 'token'; admin: string; hasToken: boolean; isOwn: boolean }
  | { kind: 'role'; admin: Admin }
  | { kind: 'deleteAdmin' | 'removeToken' | 'eradicate'; name: string }
  | { kind: 'snapshot' | 'connect' | 'protect'; names: string[] }
  | { kind: 'clone'; source: string }
  | { kind: 'rename'; of: Kind; name: string }
  | { kind: 'resize' | 'limits'; volume: Volume }
  | { kind: 'restore'; volume: string; from: string };

let request: Request | null = null;
const listeners = new Set<() => void>();

export function open(next: Request | null) {
  request = next;
  for (const listener of listeners) listener();
}

/** Runs an action that needs no dialog. A refusal is shown as a notice. Returns whether it was done. */
export async function perform(action: () => Promise<actions.Done>): Promise<boolean> {
  let isDone = false;
  try {
    notify(await action());
    isDone = true;
  } catch (error) {
    notify({ message: `${text.errors.title}. ${error instanceof Error ? error.message : error}` });
  }
  await refresh();
  return isDone;
}

export function useRequest(): Request | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => request,
  );
}

export function sizeError(value: string): string | null {
  const parsed = parseSize(value);
  if ('bytes' in parsed || parsed.error === 'empty') return null;
  return parsed.suggestion ? text.forms.sizeDecimal(parsed.suggestion) : text.forms.sizeUnreadable;
}
