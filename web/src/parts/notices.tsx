/** Notices of what was done, with Undo for eight seconds. */

import { useEffect, useSyncExternalStore } from 'react';
import type { Done } from '../actions';
import { refresh } from '../api/queries';
import { text } from '../text';

const SHOWN_MS = 8000;
const MOST = 3;

type Notice = Done & { id: number };

let notices: Notice[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(next: Notice[]) {
  notices = next;
  for (const listener of listeners) listener();
}

export function notify(done: Done) {
  last += 1;
  set([...notices, { ...done, id: last }].slice(-MOST));
}

/** Undoes the newest notice that can be undone. */
export async function undoLast() {
  const notice = notices.findLast((notice) => notice.undo !== undefined);
  if (notice) await undo(notice);
}

async function undo(notice: Notice) {
  set(notices.filter((other) => other.id !== notice.id));
  try {
    await notice.undo?.();
    notify({ message: text.common.undone });
  } catch (error) {
    notify({ message: `${text.errors.title}: ${error instanceof Error ? error.message : error}` });
  }
  await refresh();
}

export function Notices() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((notice) => (
        <Toast key={notice.id} notice={notice} />
      ))}
    </div>
  );
}

function Toast({ notice }: { notice: Notice }) {
  useEffect(() => {
    const timer = setTimeout(() => set(notices.filter((other) => other.id !== notice.id)), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [notice.id]);
  return (
    <div className="toast">
      <bdi>{notice.message}</bdi>
      {notice.undo && (
        <button type="button" className="btn small" onClick={() => undo(notice)}>
          {text.common.undo}
        </button>
      )}
    </div>
  );
}
