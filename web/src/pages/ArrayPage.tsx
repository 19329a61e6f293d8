/** The array itself: identity, portals, scrub. */

import * as actions from '../actions';
import { useArray, useControllers, usePorts, useScrub } from '../api/queries';
import { absolute, duration } from '../format/time';
import { size } from '../format/units';
import { Card, Code, ErrorNote, Head, Loading, Name } from '../parts/common';
import { perform } from '../parts/dialogs';
import { text } from '../text';
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
        <Card className="c6" title={text.array.portals} note={text.array.portalsNote}>
          <table className="table">
            <thead>
              <tr>
                <th>{text.array.port}</th>
                <th>{text.array.address}</th>
              </tr>
            </thead>
            <tbody>
              {ports.data?.map((port) => (
                <tr key={port.name}>
                  <td>{port.name}</td>
                  <td className="mono">{port.portal ?? text.common.none}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
        <ScrubCard />
      </div>
    </>
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
        <button
          type="button"
          className="btn small"
          disabled={running}
          onClick={() => perform(actions.startScrub)}
        >
          {text.verbs.scrub}
        </button>
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
