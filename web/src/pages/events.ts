/** Alerts and sessions as one list of events. */

import type { Alert, Audit, RefusedLogin, Session } from '../api/types';
import { text } from '../text';

export const KINDS = ['change', 'alert', 'session', 'refused'] as const;
export type EventKind = (typeof KINDS)[number];
export const asKind = (value: unknown): EventKind | undefined => KINDS.find((kind) => kind === value);

export type Happening = {
  key: string;
  time: number;
  kind: EventKind;
  tone: 'good' | 'warning' | 'critical' | '';
  title: string;
  what: string;
  detail: string;
  host?: string;
};

const sessionKey = ({ initiator, isid, tsih, since }: Session) => `${initiator} ${isid} ${tsih} ${since}`;

function ofAlert(alert: Alert): Happening[] {
  const { id, summary: what, description: detail } = alert;
  const tone = alert.severity === 'critical' || alert.severity === 'warning' ? alert.severity : '';
  const opened: Happening = {
    key: `open ${id}`,
    time: alert.created,
    kind: 'alert',
    tone,
    title: text.activity.opened,
    what,
    detail,
  };
  if (alert.closed === null) return [opened];
  const title = text.activity.closed;
  return [opened, { ...opened, key: `closed ${id}`, time: alert.closed, tone: 'good', title }];
}

function ofSession(session: Session): Happening[] {
  const key = sessionKey(session);
  const begun: Happening = {
    key: `in ${key}`,
    time: session.since,
    kind: 'session',
    tone: '',
    title: text.activity.loggedIn,
    what: session.host.name ?? `${session.initiator} (${text.activity.unknownHost})`,
    detail: text.host.between(session.initiator_portal, session.target_portal),
    host: session.host.name ?? undefined,
  };
  if (session.ended === null) return [begun];
  const isIntended = session.reason === 'logged out';
  const end: Happening = {
    ...begun,
    key: `out ${key}`,
    time: session.ended,
    tone: isIntended ? '' : 'warning',
    title: isIntended ? text.activity.loggedOut : text.activity.lost,
    detail: isIntended ? begun.detail : `${session.reason} · ${begun.detail}`,
  };
  return [begun, end];
}

function ofRefusal({ initiator, initiator_portal, count, time, reason }: RefusedLogin): Happening {
  const attempts = text.activity.attempts(count);
  return {
    key: `refused ${initiator} ${initiator_portal}`,
    time,
    kind: 'refused',
    tone: 'warning',
    title: text.activity.refused,
    what: initiator,
    detail: `${reason} · ${initiator_portal} · ${attempts}`,
  };
}

function ofAudit({ id, time, user, location, subcommand, command, arguments: details }: Audit): Happening {
  return {
    key: `change ${id}`,
    time,
    kind: 'change',
    tone: '',
    title: text.activity.changed,
    what: `${subcommand} ${command}`,
    detail: [details, text.activity.by(user, location)].filter((part) => part !== '').join(' · '),
  };
}

/** All events, latest first. */
export function happenings(
  audits: Audit[],
  alerts: Alert[],
  sessions: Session[],
  refused: RefusedLogin[],
): Happening[] {
  const all = [
    ...audits.map(ofAudit),
    ...alerts.flatMap(ofAlert),
    ...sessions.flatMap(ofSession),
    ...refused.map(ofRefusal),
  ];
  return all.toSorted((a, b) => b.time - a.time);
}
