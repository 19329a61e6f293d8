import type { Alert } from '../api/types';
import { text } from '../text';

/** Alerts that mean that some data is not served: the engine stopped, writes are refused. */
const NOT_SERVED = new Set([4, 10, 12]);

/** The state of the array in one or two sentences: the worst first. */
export function sentence(status: string, alerts: Pick<Alert, 'code' | 'severity'>[]): string {
  const more = text.overview.attention(alerts.length);
  if (status === 'stopped' || alerts.some((alert) => NOT_SERVED.has(alert.code)))
    return text.overview.notServed;
  const isCritical = alerts.some((alert) => alert.severity === 'critical');
  return [isCritical ? text.overview.critical : text.overview.served, more]
    .filter((part) => part !== '')
    .join(' ');
}
