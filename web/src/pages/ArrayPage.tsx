/** The array itself: identity, portals, scrub. */

import * as actions from '../actions';
import {
  useArray,
  useControllers,
  useDrives,
  usePortPerformance,
  usePorts,
  useScrub,
  useSessions,
} from '../api/queries';
import { bandwidth, rate } from '../format/rates';
import { absolute, duration } from '../format/time';
import { count, NONE, size } from '../format/units';
import { Card, Code, ErrorNote, Head, Loading, Name } from '../parts/common';
import { May } from '../parts/May';
import { perform } from '../parts/request';
import { text } from '../text';
import { isAt } from './paths';
import { Pair } from './VolumeDrawer';

const MOST_DAMAGE = 20;

export function ArrayPage() {
  const array = useArray();
  const ports = usePorts();
  const controllers = useControllers();
  if (!array.data) return array.error ? <ErrorNote error={array.error} /> : <Loading />;
  const { data } = array;
  return (
    <>
      <Head
        kicker={text.array.kicker}
        title={<Name>{data.name}</Name>}
        sub={text.array.states[data.status] ?? data.status}
      />
      <div className="grid">
        <Card className="c6" title={text.array.identity}>
          <dl className="pairs">
            <Pair label={text.array.version}>
              {data.os} {data.program_version}
            </Pair>
            <Pair label={text.array.id}>
              <span className="mono">{data.id}</span>
            </Pair>
            <Pair label={text.array.iqn}>
              <span className="mono">{ports.data?.[0]?.iqn ?? text.common.none}</span>
            </Pair>
            {controllers.data?.map((controller) => (
              <Pair key={controller.name} label={text.array.controllers}>
                {controller.name} · {controller.mode} · {controller.status}
              </Pair>
            ))}
            <Pair label={text.array.delay}>{duration(data.eradication_config.eradication_delay)}</Pair>
            <Pair label={text.array.threshold}>
              {data.threshold_percent === null ? text.array.never : `${data.threshold_percent}\u00a0%`}
            </Pair>
          </dl>
        </Card>
        <Drives />
        <Ports />
        <ScrubCard />
      </div>
    </>
  );
}

function Ports() {
  const [ports, sessions, performance] = [usePorts(), useSessions(), usePortPerformance()];
  return (
    <Card title={text.array.portals} note={text.array.portalsNote}>
      <section className="scroll-x" aria-label={text.array.portals} tabIndex={0}>
        <table className="table">
          <thead>
            <tr>
              <th>{text.array.port}</th>
              <th>{text.array.address}</th>
              <th className="right">{text.array.sessions}</th>
              <th className="right">{text.array.iops}</th>
              <th className="right">{text.array.read}</th>
              <th className="right">{text.array.write}</th>
            </tr>
          </thead>
          <tbody>
            {ports.data?.map((port) => {
              const now = performance.data?.find(({ name }) => name === port.name);
              return (
                <tr key={port.name}>
                  <td>{port.name}</td>
                  <td className="mono">{port.portal ?? text.common.none}</td>
                  <td className="right">
                    {sessions.data ? count(sessions.data.filter((one) => isAt(one, port)).length) : NONE}
                  </td>
                  <td className="right">{rate(now && now.reads_per_sec + now.writes_per_sec)}</td>
                  <td className="right">{bandwidth(now?.read_bytes_per_sec)}</td>
                  <td className="right">{bandwidth(now?.write_bytes_per_sec)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </section>
    </Card>
  );
}

function Drives() {
  const drives = useDrives();
  return (
    <Card className="c6" title={text.array.drives}>
      <ul className="items">
        {drives.data?.map((drive) => (
          <li key={drive.name}>
            <span>
              <b>{drive.name}</b>
              <small>
                {size(drive.capacity)} · {drive.type}
              </small>
              {drive.details && <small>{drive.details}</small>}
            </span>
            <span className={`chip ${drive.status === 'healthy' ? 'good' : 'critical'}`}>{drive.status}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function ScrubCard() {
  const scrub = useScrub();
  if (!scrub.data) return null;
  const { running, checked, used, last, next, damage } = scrub.data;
  return (
    <Card
      title={text.array.scrub}
      note={text.array.scrubNote}
      end={
        <May need="ops_admin">
          <button
            type="button"
            className="btn small"
            disabled={running}
            onClick={() => perform(actions.startScrub)}
          >
            {text.verbs.scrub}
          </button>
        </May>
      }
    >
      {running && <p>{text.array.scrubRunning(size(checked), size(used))}</p>}
      <dl className="pairs">
        <Pair label={text.array.scrubLast}>{last === null ? text.array.scrubNever : absolute(last)}</Pair>
        <Pair label={text.array.scrubNext}>{next === null ? text.array.never : absolute(next)}</Pair>
      </dl>
      <p className={`note gap ${damage.length > 0 ? 'bad' : 'good'}`}>
        {damage.length > 0 ? text.array.damage(damage.length) : text.array.intact}
      </p>
      {damage.length > 0 && <Code>{damage.slice(0, MOST_DAMAGE).join('\n')}</Code>}
    </Card>
  );
}
