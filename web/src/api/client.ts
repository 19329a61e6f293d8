/** Calls of the REST interface, with the session in a cookie that scripts cannot read. */

const ROOT = '/api/2.26';
/** Without input for this long, calls are polls and do not prolong the session. */
const ACTIVE_MS = 60_000;

export type Params = Record<string, string | number | boolean | undefined>;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly context: string | null,
    message: string,
  ) {
    super(message);
  }
}

let lastInput = Date.now();
for (const event of ['pointerdown', 'keydown'] as const) {
  globalThis.addEventListener?.(event, () => {
    lastInput = Date.now();
  });
}

/** How far the clock of the array is ahead of that of the browser. */
let clockAhead = 0;

/** The time by the clock of the array, to a second. */
export const serverNow = () => Date.now() + clockAhead;

function noteClock(date: string | null) {
  const ahead = Date.parse(date ?? '') - Date.now();
  // The header has no fractions of a second, so small differences mean nothing.
  if (!Number.isNaN(ahead)) clockAhead = Math.abs(ahead) > 2000 ? ahead : 0;
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

export function address(path: string, params: Params = {}): string {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${ROOT}${path}${given.length > 0 ? `?${query}` : ''}`;
}

export async function call<T>(
  method: Method,
  path: string,
  params: Params = {},
  body?: unknown,
  more: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<T> {
  const headers: Record<string, string> = { 'x-ibid-console': '1', ...more };
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (Date.now() - lastInput > ACTIVE_MS) headers['x-ibid-background'] = '1';
  const response = await fetch(address(path, params), {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    redirect: 'error',
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'no_answer', null, error instanceof Error ? error.message : String(error));
  });
  noteClock(response.headers.get('date'));
  const text = await response.text();
  if (response.ok) return (text === '' ? {} : JSON.parse(text)) as T;
  throw failure(response.status, text);
}

/** Reads the error of an answer. The message of the array is kept word for word. */
export function failure(status: number, text: string): ApiError {
  try {
    const body = JSON.parse(text) as {
      errors?: { code?: string; context?: string | null; message: string }[];
      message?: string;
    };
    const first = body.errors?.[0];
    if (first) {
      const others = (body.errors?.length ?? 1) - 1;
      const more = others > 0 ? ` (+${others})` : '';
      return new ApiError(status, first.code ?? 'unspecified', first.context ?? null, first.message + more);
    }
    return new ApiError(
      status,
      status === 429 ? 'too_many_logins' : 'unspecified',
      null,
      body.message ?? text,
    );
  } catch {
    return new ApiError(status, 'unspecified', null, `${status} ${text.slice(0, 200)}`);
  }
}

/** Opens a session. Returns the administrator of the token. */
export async function logIn(token: string): Promise<string | null> {
  const headers = { 'api-token': token, 'x-ibid-session': 'cookie' };
  const answer = await call<{ items?: { username?: string }[] }>('POST', '/login', {}, undefined, headers);
  return answer.items?.[0]?.username ?? null;
}

export function logOut(): Promise<unknown> {
  return call('POST', '/logout');
}
