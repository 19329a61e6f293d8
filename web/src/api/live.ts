/**
 * Live updates: the array names the kinds of objects that changed, and the lists that show them are read again.
 * While there is no stream, all lists are read at intervals.
 */

import { useSyncExternalStore } from 'react';
import { ApiError, address, failure } from './client';
import { noteFailure } from './session';
import { isCovered, kindsOf, type Message, MessageReader, Waiting } from './stream';

/** While the stream reports the changes of a list, the list is read this often nevertheless. */
const SAFETY_MS = 60_000;
/** The array sends something every 15 seconds. */
const SILENCE_MS = 40_000;
const RETRY_MS = 3_000;
const MOST_RETRY_MS = 60_000;

let isOpen = false;
/** There was no stream at the last attempt. */
let isCut = false;
const listeners = new Set<() => void>();

function set(next: { isOpen: boolean; isCut: boolean }) {
  if (next.isOpen === isOpen && next.isCut === isCut) return;
  ({ isOpen, isCut } = next);
  for (const listener of listeners) listener();
}

/** How often to read a list: seldom, if the stream reports its changes. */
export const pace = (path: string, interval: number) => () =>
  isOpen && isCovered(path) ? Math.max(interval, SAFETY_MS) : interval;

/** Whether there is no stream although the console asked for one. */
export function useIsCut(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => isCut,
  );
}

/** Marks lists as out of date: those with these paths, or all. */
export type OutOfDate = (paths: ReadonlySet<string> | null) => void;

/** Keeps a stream open while the page is visible. Returns a function that ends it. */
export function follow(outOfDate: OutOfDate): () => void {
  const stream = new LiveStream(outOfDate);
  const onVisibility = () => (document.hidden ? stream.close() : stream.open());
  document.addEventListener('visibilitychange', onVisibility);
  onVisibility();
  return () => {
    document.removeEventListener('visibilitychange', onVisibility);
    stream.close();
  };
}

class LiveStream {
  readonly #waiting = new Waiting();
  #current: AbortController | null = null;
  #last = '';
  #failures = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #reading: ReturnType<typeof setTimeout> | undefined;

  constructor(readonly outOfDate: OutOfDate) {}

  open() {
    if (this.#current !== null) return;
    clearTimeout(this.#retry);
    const current = new AbortController();
    this.#current = current;
    void this.#run(current.signal)
      .catch((error: unknown) => {
        // The stream is a poll, too: the end of the session is seen here first.
        if (error instanceof ApiError && error.status === 401) noteFailure(error);
      })
      .finally(() => {
        if (this.#current !== current) return;
        this.#current = null;
        this.#cut();
      });
  }

  close() {
    const current = this.#current;
    this.#current = null;
    current?.abort();
    clearTimeout(this.#retry);
    clearTimeout(this.#reading);
    set({ isOpen: false, isCut: false });
  }

  /** Reads all lists at intervals until there is a stream again. */
  #cut() {
    const wasOpen = isOpen;
    set({ isOpen: false, isCut: true });
    if (wasOpen) this.outOfDate(null);
    const pause = Math.min(MOST_RETRY_MS, RETRY_MS * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#failures += 1;
    this.#retry = setTimeout(() => this.open(), pause);
  }

  async #run(closed: AbortSignal) {
    const silence = new AbortController();
    const signal = AbortSignal.any([closed, silence.signal]);
    const headers: Record<string, string> = { 'x-ibid-console': '1', 'x-ibid-background': '1' };
    if (this.#last !== '') headers['last-event-id'] = this.#last;
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const response = await fetch(address('/events'), {
        headers,
        signal,
        redirect: 'error',
        cache: 'no-store',
      });
      if (!response.ok || response.body === null) throw failure(response.status, await response.text());
      const reader = response.body.getReader();
      const messages = new MessageReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        for (const message of messages.read(value)) this.#take(message);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #take({ id, event, data }: Message) {
    if (event === 'resync' || event === 'change') {
      this.#last = id;
      this.#failures = 0;
      set({ isOpen: true, isCut: false });
    }
    if (event === 'resync') this.outOfDate(null);
    if (event === 'change') {
      this.#waiting.add(kindsOf(data));
      this.#read();
    }
  }

  #read() {
    clearTimeout(this.#reading);
    const { paths, next } = this.#waiting.take(Date.now());
    if (paths.size > 0) this.outOfDate(paths);
    if (next !== null) this.#reading = setTimeout(() => this.#read(), next);
  }
}
