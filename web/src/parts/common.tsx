/** Small parts that several pages use. */

import { type ReactNode, useState } from 'react';
import { ApiError } from '../api/client';
import { exactSize, size } from '../format/units';
import { text } from '../text';

export function Head({ kicker, title, sub, children }: HeadProps) {
  return (
    <div className="head">
      <div>
        <p className="kicker">
          <bdi>{kicker}</bdi>
        </p>
        <h1>{title}</h1>
        {sub !== undefined && <p className="sub">{sub}</p>}
      </div>
      {children}
    </div>
  );
}
type HeadProps = { kicker: string; title: ReactNode; sub?: ReactNode; children?: ReactNode };

export function Card({ title, note, end, className = '', children }: CardProps) {
  return (
    <section className={`card ${className}`}>
      <header>
        <h2>{title}</h2>
        {note && <span className="soft">{note}</span>}
        {end && <span className="end">{end}</span>}
      </header>
      {children}
    </section>
  );
}
type CardProps = { title: string; note?: string; end?: ReactNode; className?: string; children: ReactNode };

/** A size, with all digits in its tooltip. */
export function Size({ bytes }: { bytes: number | null | undefined }) {
  return <span title={bytes == null ? undefined : exactSize(bytes)}>{size(bytes)}</span>;
}

/** A name of an object. It may hold any characters of any direction. */
export function Name({ children }: { children: string | null | undefined }) {
  return <bdi>{(children ?? text.common.none).slice(0, 223)}</bdi>;
}

export function Code({ children }: { children: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(children).catch(() => undefined);
    setCopied(true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <div className="code">
      <pre>{children}</pre>
      <button type="button" className="btn small" onClick={copy}>
        {isCopied ? text.common.copied : text.common.copy}
      </button>
    </div>
  );
}

/** What failed, in the words of the array, and the next step if there is a known one. */
export function ErrorNote({ error }: { error: unknown }) {
  if (!error) return null;
  const known = error instanceof ApiError ? error : null;
  const hint = known ? text.errors.hint[known.code] : undefined;
  const message = error instanceof Error ? error.message : String(error);
  return (
    <div className="note bad break" role="alert">
      {known?.context && (
        <>
          <b>
            <Name>{known.context}</Name>
          </b>
          {': '}
        </>
      )}
      {known?.status === 0 ? text.errors.noAnswer : message}
      {hint && <div>{hint}</div>}
    </div>
  );
}

export function Bar({ part, whole, className = '' }: { part: number; whole: number; className?: string }) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  return (
    <span className="bar" aria-hidden="true">
      <i className={className} style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export function Loading() {
  return (
    <p className="center" role="status">
      {text.common.loading}…
    </p>
  );
}
