/** What has happened: alerts, and sessions of hosts. */

import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useAlerts, useAudits, useEndedSessions, useRefusedLogins, useSessions } from '../api/queries';
import { absolute } from '../format/time';
import { ErrorNote, Head, Loading, Name } from '../parts/common';
import { text } from '../text';
import { asKind, type Happening, happenings, KINDS } from './events';

/** Events in the document. */
const MOST = 100;

export function Activity() {
  const { kind } = useSearch({ from: '/activity' });
  const navigate = useNavigate({ from: '/activity' });
  const audits = useAudits();
  const [alerts, live, ended, refused] = [useAlerts(), useSessions(), useEndedSessions(), useRefusedLogins()];
  const isLoaded = audits.data && alerts.data && live.data && ended.data && refused.data;
  const all = useMemo(
    () =>
      happenings(
        audits.data ?? [],
        alerts.data ?? [],
        [...(live.data ?? []), ...(ended.data ?? [])],
        refused.data ?? [],
      ),
    [audits.data, alerts.data, live.data, ended.data, refused.data],
  );
  if (!isLoaded) {
    const error = audits.error ?? alerts.error ?? live.error ?? ended.error ?? refused.error;
    return error ? <ErrorNote error={error} /> : <Loading />;
  }
  const wanted = all.filter((event) => kind === undefined || event.kind === kind);
  return (
    <>
      <Head kicker={text.activity.kicker} title={text.activity.title} sub={text.activity.sub} />
      <fieldset className="segments kinds">
        <legend className="vh">{text.activity.choose}</legend>
        {(['all', ...KINDS] as const).map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === (kind ?? 'all')}
            onClick={() => navigate({ to: '.', search: { kind: asKind(one) }, replace: true })}
          >
            {text.activity.kinds[one]}
          </button>
        ))}
      </fieldset>
      <section className="card" aria-label={text.activity.title}>
        {wanted.length === 0 && (
          <p className="soft">{kind === undefined ? text.activity.empty : text.activity.none}</p>
        )}
        <ul className="items log">
          {wanted.slice(0, MOST).map((event) => (
            <Row key={event.key} event={event} />
          ))}
        </ul>
        {wanted.length > MOST && <p className="rule soft">{text.activity.shown(MOST, wanted.length)}</p>}
      </section>
    </>
  );
}

function Row({ event }: { event: Happening }) {
  return (
    <li>
      <time dateTime={new Date(event.time).toISOString()}>{absolute(event.time)}</time>
      <span>
        {event.host ? (
          <Link to="/hosts/$name" params={{ name: event.host }}>
            <Name>{event.what}</Name>
          </Link>
        ) : (
          <b>
            <Name>{event.what}</Name>
          </b>
        )}
        <small>
          <bdi>{event.detail}</bdi>
        </small>
      </span>
      <span className={`chip ${event.tone}`}>{event.title}</span>
    </li>
  );
}
