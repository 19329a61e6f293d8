/** Three steps to the first disk, with the commands of this array and of the host. */

import { TextInput } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { accessCommands, createHost, initiators } from '../accessActions';
import * as actions from '../actions';
import { commands } from '../actions';
import { refresh, useArray, useConnections, useHosts, usePorts, useVolume } from '../api/queries';
import { parseSize, size } from '../format/units';
import { Code, ErrorNote, Head, Loading, Name } from '../parts/common';
import { useMay } from '../parts/May';
import { notify } from '../parts/notices';
import { sizeError } from '../parts/request';
import { text } from '../text';
import { recipe, SYSTEMS, type System } from './recipes';

/** Runs an action of a step, and shows its refusal in the step. */
function useStep() {
  const [error, setError] = useState<unknown>(null);
  const run = async (action: () => Promise<actions.Done>) => {
    setError(null);
    try {
      notify(await action());
    } catch (error) {
      setError(error);
    }
    await refresh();
  };
  return { error, run };
}

export function FirstRun() {
  const array = useArray();
  const [name, setName] = useState('ds-01');
  const [system, setSystem] = useState<System>('Linux');
  const ports = usePorts();
  const volume = useVolume(name);
  const isAllowed = useMay('storage_admin');
  if (!array.data) return array.error ? <ErrorNote error={array.error} /> : <Loading />;
  const portals = (ports.data ?? []).flatMap((port) => (port.portal ? [port.portal] : []));
  const free = array.data.capacity - (array.data.space.total_physical ?? 0);
  const made = volume.error ? undefined : volume.data;
  const shown = recipe(system, portals, ports.data?.[0]?.iqn ?? '', made?.serial ?? '');
  return (
    <>
      <Head
        kicker={text.first.kicker(array.data.name)}
        title={text.first.title}
        sub={text.first.sub(size(free))}
      />
      {!isAllowed && <p className="note warn gap">{text.first.readOnly}</p>}
      <div className="steps gap">
        <VolumeStep name={name} setName={setName} isMade={made !== undefined} isAllowed={isAllowed} />
        <HostStep
          key={system}
          system={system}
          setSystem={setSystem}
          volume={name}
          shown={shown}
          isReady={made !== undefined}
          isAllowed={isAllowed}
        />
        <Step number={3} title={text.first.step3}>
          <p className="soft">{text.first.step3Note(portals.length)}</p>
          {portals.length > 0 && portals.every((portal) => /^(127\.|\[::1\])/.test(portal)) && (
            <p className="note warn">{text.first.loopback}</p>
          )}
          <Code>{shown.logIn}</Code>
          <p className="rule">{text.first.after[system]}</p>
          {shown.after && <Code>{shown.after}</Code>}
          <p className={`wait note ${made?.space.virtual ? 'good' : ''}`} role="status">
            {made?.space.virtual ? text.first.arrived(size(made.space.virtual)) : text.first.waiting}
          </p>
        </Step>
      </div>
    </>
  );
}

function Step({ number, title, children }: { number: number; title: string; children: ReactNode }) {
  return (
    <section className="card step">
      <span className="number" aria-hidden="true">
        {number}
      </span>
      <div>
        <h2>{title}</h2>
        {children}
      </div>
    </section>
  );
}

function VolumeStep({
  name,
  setName,
  isMade,
  isAllowed,
}: {
  name: string;
  setName: (name: string) => void;
  isMade: boolean;
  isAllowed: boolean;
}) {
  const [chosen, setChosen] = useState('1TiB');
  const step = useStep();
  const parsed = parseSize(chosen);
  const bytes = 'bytes' in parsed ? parsed.bytes : 0;
  return (
    <Step number={1} title={text.first.step1}>
      <p className="soft">{text.first.step1Note}</p>
      {isAllowed && (
        <div className="fields">
          <TextInput
            label={text.common.name}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <TextInput
            label={text.common.size}
            value={chosen}
            onChange={(event) => setChosen(event.currentTarget.value)}
            error={sizeError(chosen)}
          />
          <button
            type="button"
            className="btn primary"
            disabled={isMade || name === '' || bytes === 0}
            onClick={() => step.run(() => actions.createVolume(name, bytes))}
          >
            {text.first.make}
          </button>
        </div>
      )}
      <Code>{commands.createVolume(name || 'NAME', bytes)}</Code>
      <ErrorNote error={step.error} />
      {isMade && (
        <p className="wait note good" role="status">
          {text.first.made(name)}
        </p>
      )}
    </Step>
  );
}

type HostStepProps = {
  system: System;
  setSystem: (system: System) => void;
  volume: string;
  shown: { host: string; iqn: string; find: string };
  isReady: boolean;
  isAllowed: boolean;
};

/** A host with these initiators, without CHAP. */
const ofHost = (typed: string) => ({ iqns: initiators(typed), personality: '', chap: null });

function HostStep({ system, setSystem, volume, shown, isReady, isAllowed }: HostStepProps) {
  const [host, setHost] = useState(shown.host);
  const [iqn, setIqn] = useState('');
  const step = useStep();
  const hosts = useHosts();
  const connections = useConnections({ volume }, isReady);
  const connected = connections.error ? undefined : connections.data?.[0]?.host.name;
  const admit = async () => {
    if (!hosts.data?.some((known) => known.name === host)) await createHost(host, ofHost(iqn));
    return actions.connect({ host }, [volume]);
  };
  return (
    <Step number={2} title={text.first.step2}>
      <p className="soft">{text.first.step2Note}</p>
      <fieldset className="segments">
        <legend className="vh">{text.first.system}</legend>
        {SYSTEMS.map((one) => (
          <button key={one} type="button" aria-pressed={one === system} onClick={() => setSystem(one)}>
            {one}
          </button>
        ))}
      </fieldset>
      <Code>{shown.find}</Code>
      {isAllowed && (
        <div className="fields">
          <TextInput
            label={text.common.name}
            value={host}
            onChange={(event) => setHost(event.currentTarget.value)}
          />
          <TextInput
            className="wide"
            label={text.forms.iqn}
            placeholder={shown.iqn}
            value={iqn}
            onChange={(event) => setIqn(event.currentTarget.value)}
          />
          <button
            type="button"
            className="btn primary"
            disabled={!isReady || host === '' || iqn.trim() === '' || connected !== undefined}
            onClick={() => step.run(admit)}
          >
            {text.first.admit}
          </button>
        </div>
      )}
      <Code>{`${accessCommands.createHost(host || 'NAME', ofHost(iqn || shown.iqn))}\n${commands.connect({ host: host || 'NAME' }, volume)}`}</Code>
      <ErrorNote error={step.error} />
      {connected && (
        <p className="wait note good" role="status">
          <Name>{text.first.connected(connected, volume)}</Name>
        </p>
      )}
    </Step>
  );
}
