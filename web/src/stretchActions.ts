/** Changes of pods on two arrays: each with its call, its command and its undo, if any. */

import { type Done, word } from './actions';
import { call, type Method, type Params } from './api/client';
import type { Pod, PodPatch } from './api/types';
import { commandSize } from './format/units';
import { text } from './text';

/** The name that the interface has for no mediator. */
const NO_MEDIATOR = 'purestorage';

export const isStretched = (pod: Pod) => pod.arrays.length > 1;

/** The other array of a pod on two arrays. This one is the first in the list. */
export const otherArray = (pod: Pod) => pod.arrays[1]?.name ?? '';

/** The address of the mediator; empty without one. */
export const mediatorOf = (pod: Pod) => (pod.mediator === NO_MEDIATOR ? '' : pod.mediator);

/** The preferred array of a pod on two arrays. */
export const preferredOf = (pod: Pod) => pod.failover_preferences[0]?.name ?? '';

export const stretchCommands = {
  stretch: (pod: string, array: string, mediator: string) =>
    `ibid pod stretch ${word(pod)} ${word(array)}${mediator === '' ? '' : ` --mediator ${word(mediator)}`}`,
  unstretch: (pod: string, array: string) => `ibid pod unstretch ${word(pod)} ${word(array)}`,
  prefer: (pod: string, array: string) => `ibid pod prefer ${word(pod)} ${word(array)}`,
  mediator: (pod: string, address: string) =>
    `ibid pod mediator ${word(pod)} ${address === '' ? 'none' : word(address)}`,
  resyncLimit: (pod: string, limit: number | null) =>
    `ibid pod set ${word(pod)} --resync-limit ${limit === null ? 'none' : commandSize(limit)}`,
  resign: (pod: string) => `ibid pod resign ${word(pod)}`,
};

type Call = [method: Method, path: string, params: Params, body?: PodPatch];

const ofArray = (method: Method, pod: string, array: string, more: Params = {}): Call => [
  method,
  '/pods/arrays',
  { group_names: pod, member_names: array, ...more },
];
const ofPod = (pod: string, body: PodPatch): Call => ['PATCH', '/pods', { names: pod }, body];

export const stretchCalls = {
  /** The mediator is part of the call, so that the pod has it from the start. */
  stretch: (pod: string, array: string, mediator: string) =>
    ofArray('POST', pod, array, { mediator: mediator === '' ? undefined : mediator }),
  unstretch: (pod: string, array: string) => ofArray('DELETE', pod, array),
  prefer: (pod: string, array: string) => ofPod(pod, { failover_preferences: [{ name: array }] }),
  mediator: (pod: string, address: string) => ofPod(pod, { mediator: address }),
  resyncLimit: (pod: string, limit: number | null) => ofPod(pod, { resync_limit: limit ?? '' }),
  resign: (pod: string): Call => ['POST', '/pods/resign', { names: pod }],
};

/** Brings a pod to another array. The array answers before the content has arrived there. */
export async function stretch(pod: string, array: string, mediator: string): Promise<Done> {
  await call(...stretchCalls.stretch(pod, array, mediator));
  return { message: text.done.stretched(pod, array) };
}

/** Removes a pod from the other array, which discards its content of it. */
export async function unstretch(pod: string, array: string): Promise<Done> {
  await call(...stretchCalls.unstretch(pod, array));
  return { message: text.done.unstretched(pod, array) };
}

export async function prefer(pod: Pod, array: string): Promise<Done> {
  await call(...stretchCalls.prefer(pod.name, array));
  const before = preferredOf(pod);
  return {
    message: text.done.preferred(pod.name, array),
    undo: () => call(...stretchCalls.prefer(pod.name, before)),
  };
}

export async function setMediator(pod: Pod, address: string): Promise<Done> {
  await call(...stretchCalls.mediator(pod.name, address));
  const before = mediatorOf(pod);
  return {
    message: text.done.mediator(pod.name, address),
    undo: () => call(...stretchCalls.mediator(pod.name, before)),
  };
}

export async function setResyncLimit(pod: Pod, limit: number | null): Promise<Done> {
  await call(...stretchCalls.resyncLimit(pod.name, limit));
  return {
    message: text.done.changed(pod.name),
    undo: () => call(...stretchCalls.resyncLimit(pod.name, pod.resync_limit)),
  };
}

/** Hands a pod over to the other array, which orders its changes from then on. */
export async function resign(pod: string, array: string): Promise<Done> {
  await call(...stretchCalls.resign(pod));
  return { message: text.done.resigned(pod, array) };
}
