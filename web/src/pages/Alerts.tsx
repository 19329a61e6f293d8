/** Alerts: the open ones, and those that ended since the array started. */

import { Link } from '@tanstack/react-router';
import { useAlerts } from '../api/queries';
import type { Alert } from '../api/types';
import { absolute, duration, since } from '../format/time';
import { Card, ErrorNote, Head, Loading } from '../parts/common';
import { text } from '../text';

export function Alerts() {
  const alerts = useAlerts();
  if (!alerts.data) return alerts.error ? <ErrorNote error={alerts.error} /> : <Loading />;
  const open = alerts.data.filter((alert) => alert.state === 'open');
  const closed = alerts.data.filter((alert) => alert.state !== 'open');
  return (
    <>
      <Head kicker={text.alerts.kicker} title={text.alerts.title} sub={text.header.alerts(open.length)} />
      <div className="grid">
        <Card title={text.alerts.open}>
          {open.length === 0 && <p className="soft">{text.alerts.none}</p>}
          <AlertList alerts={open} />
        </Card>
        <Card title={text.alerts.closed}>
          {closed.length === 0 && <p className="soft">{text.alerts.noneClosed}</p>}
          <AlertList alerts={closed} />
        </Card>
      </div>
    </>
  );
}

function AlertList({ alerts }: { alerts: Alert[] }) {
  const now = Date.now();
  return (
    <ul className="items">
      {alerts.map((alert) => (
        <li key={alert.id}>
          <span>
            <b>
              <bdi>{alert.summary}</bdi>
            </b>
            <small>{alert.description}</small>
            <small>
              {alert.closed
                ? text.alerts.closedAfter(absolute(alert.created), duration(alert.closed - alert.created))
                : text.alerts.since(since(alert.created, now))}
            </small>
          </span>
          <span className={`chip ${alert.closed ? '' : alert.severity}`}>
            {text.alerts.severity[alert.severity] ?? alert.severity}
          </span>
          {!alert.closed && <Remedy alert={alert} />}
        </li>
      ))}
    </ul>
  );
}

/** The next step for an alert, if the console has one. */
export function Remedy({ alert }: { alert: Alert }) {
  const remedy = text.alerts.remedy[alert.code];
  if (!remedy) return null;
  if (remedy.to) {
    return (
      <Link className="btn small" to={remedy.to} search={remedy.search ?? {}}>
        {remedy.label}
      </Link>
    );
  }
  return (
    <Link
      className="btn small"
      to={remedy.isPod ? '/pods/$name' : '/volumes/$name'}
      params={{ name: alert.component_name }}
    >
      {remedy.label}
    </Link>
  );
}
