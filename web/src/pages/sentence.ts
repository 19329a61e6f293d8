import type { Alert } from '../api/types';
import { text } from '../text';

/** Alerts that mean that some data is not served: the engine stopped, writes are refused. */
const NOT_SERVED = new Set([4, 10, 12]);

/** The alert that says why some data is not served, if there is one. */
export function cause<T extends Pick<Alert, 'code'>>(alerts: T[]): T | undefined {
  return alerts.find((alert) => NOT_SERVED.has(alert.code));
}

/** The state of the array in one or two sentences: the worst first. */
export function sentence(status: string, alerts: Pick<Alert, 'code' | 'severity'>[]): string {
  const more = text.overview.attention(alerts.length);
  if (status === 'stopped' || status === 'read-only' || cause(alerts)) return text.overview.notServed;
  const isCritical = alerts.some((alert) => alert.severity === 'critical');
  return [isCritical ? text.overview.critical : text.overview.served, more]
    .filter((part) => part !== '')
    .join(' ');
}
