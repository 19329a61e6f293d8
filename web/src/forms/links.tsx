/** Forms of connections to other arrays: key, connect, disconnect, address, distance, link test. */

import { PasswordInput, Select } from '@mantine/core';
import { useState } from 'react';
import type { ArrayConnection, ConnectionKey, Distance, LinkTest, RoundTrips } from '../api/types';
import { bandwidth, latency } from '../format/rates';
import { clock } from '../format/time';
import { commandSize, parseSize } from '../format/units';
import * as links from '../linkActions';
import { CUTS, linkCommands, NO_DISTANCE, parseMicros } from '../linkActions';
import { Code, ErrorNote } from '../parts/common';
import { open } from '../parts/request';
import { text } from '../text';
import { Field, Form } from './Form';

/** Makes a key and shows it once. */
export function ConnectionKeyForm() {
  const [key, setKey] = useState<ConnectionKey | null>(null);
  const [error, setError] = useState<unknown>(null);
  const make = async () => {
    setError(null);
    await links.newConnectionKey().then((made) => setKey(made ?? null), setError);
  };
  if (key !== null) {
    return (
      <div className="form">
        <Code>{key.connection_key}</Code>
        <p>{text.forms.keyMade(clock(key.expires))}</p>
        <Code>{linkCommands.connect(key.address ?? 'ADDRESS', '')}</Code>
        <div className="acts">
          <button type="button" className="btn primary" onClick={() => open(null)}>
            {text.forms.keyDone}
          </button>
        </div>
      </div>
    );
  }
  return (
    <div className="form">
      <p className="soft">{text.forms.keyNote}</p>
      <Code>{linkCommands.key}</Code>
      <ErrorNote error={error} />
      <div className="acts">
        <button type="button" className="btn" onClick={() => open(null)}>
          {text.common.cancel}
        </button>
        <button type="button" className="btn primary" onClick={make} data-autofocus>
          {text.verbs.makeKey}
        </button>
      </div>
    </div>
  );
}

export function ConnectArrayForm() {
  const [address, setAddress] = useState('');
  const [key, setKey] = useState('');
  const [expected, setExpected] = useState('');
  return (
    <Form
      note={text.forms.connectArrayNote}
      verb={text.verbs.connect}
      command={linkCommands.connect(address || 'ADDRESS', expected)}
      isReady={address !== '' && key !== ''}
      run={() => links.connectArray(address, key, expected)}
    >
      <Field
        label={text.forms.address}
        value={address}
        onChange={setAddress}
        hint={text.forms.addressHint}
        first
      />
      <PasswordInput
        label={text.forms.key}
        description={text.forms.keyHint}
        value={key}
        onChange={(event) => setKey(event.currentTarget.value)}
        autoComplete="new-password"
      />
      <Field
        label={text.forms.expected}
        value={expected}
        onChange={setExpected}
        hint={text.forms.expectedHint}
      />
    </Form>
  );
}

export function DisconnectArrayForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.disconnectArrayNote}
      verb={text.verbs.disconnect}
      command={linkCommands.disconnect(name)}
      isReady={typed === name}
      isDanger
      run={() => links.disconnectArray(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}

export function LinkAddressForm({ name, address }: { name: string; address: string }) {
  const [typed, setTyped] = useState(address);
  return (
    <Form
      note={text.forms.addressNote}
      verb={text.verbs.save}
      command={links.addressCall(name, typed)}
      isReady={typed !== '' && typed !== address}
      run={() => links.setAddress(name, address, typed)}
    >
      <Field
        label={text.forms.address}
        value={typed}
        onChange={setTyped}
        hint={text.forms.addressHint}
        first
      />
    </Form>
  );
}

const MOST_MICROS = 500_000;
const LEAST_RATE = 2 ** 20;

export function DistanceForm({ link }: { link: ArrayConnection }) {
  const present = link.simulated_distance ?? NO_DISTANCE;
  const [rtt, setRtt] = useState(links.commandMicros(present.rtt_usec));
  const [jitter, setJitter] = useState(links.commandMicros(present.jitter_usec));
  const [rate, setRate] = useState(
    present.bytes_per_second === null ? '' : commandSize(present.bytes_per_second),
  );
  const [cut, setCut] = useState(present.cut);
  const times = [parseMicros(rtt), parseMicros(jitter)] as const;
  const isLong = (times[0] ?? 0) + (times[1] ?? 0) > MOST_MICROS;
  const parsed = parseSize(rate);
  const bytes = 'bytes' in parsed ? parsed.bytes : null;
  const isRate = bytes === null ? 'error' in parsed && parsed.error === 'empty' : bytes >= LEAST_RATE;
  const distance: Distance = {
    rtt_usec: times[0] ?? 0,
    jitter_usec: times[1] ?? 0,
    bytes_per_second: bytes,
    cut,
  };
  const error = (time: number | null) => (time === null || isLong ? text.forms.microsUnreadable : null);
  return (
    <Form
      note={text.forms.distanceNote}
      verb={links.isNear(distance) ? text.verbs.end : text.verbs.save}
      command={linkCommands.distance(link.name, distance)}
      isReady={times[0] !== null && times[1] !== null && !isLong && isRate}
      run={() => links.setDistance(link, distance)}
    >
      <Field
        label={text.forms.rtt}
        value={rtt}
        onChange={setRtt}
        hint={text.forms.rttHint}
        error={error(times[0])}
        first
      />
      <Field label={text.forms.jitter} value={jitter} onChange={setJitter} error={error(times[1])} />
      <Field
        label={text.forms.rate}
        value={rate}
        onChange={setRate}
        hint={text.forms.rateHint}
        error={isRate ? null : text.forms.rateHint}
      />
      <Select
        label={text.forms.cut}
        value={cut}
        onChange={(cut) => setCut(cut ?? 'none')}
        data={CUTS.map((value) => ({ value, label: text.forms.cuts[value] }))}
        allowDeselect={false}
        comboboxProps={{ withinPortal: false }}
      />
    </Form>
  );
}

/** Measures the link. The figures stay until the dialog closes. */
export function LinkTestForm({ name }: { name: string }) {
  const [test, setTest] = useState<LinkTest | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    setError(null);
    await links.testLink(name).then((found) => setTest(found ?? null), setError);
    setBusy(false);
  };
  return (
    <div className="form">
      <p className="soft">{text.forms.linkTestNote}</p>
      <Code>{linkCommands.test(name)}</Code>
      <ErrorNote error={error} />
      {test && <Measured test={test} />}
      <div className="acts" role="status">
        {isBusy && <span className="soft">{text.links.test.running}</span>}
        <button type="button" className="btn" onClick={() => open(null)}>
          {text.common.close}
        </button>
        <button type="button" className="btn primary" onClick={run} disabled={isBusy} data-autofocus>
          {text.verbs.runTest}
        </button>
      </div>
    </div>
  );
}

const trips = ({ min_usec, median_usec, max_usec }: RoundTrips) =>
  text.links.test.median(latency(median_usec), latency(min_usec), latency(max_usec));

function Measured({ test }: { test: LinkTest }) {
  const words = text.links.test;
  const rows: [string, string][] = [
    [words.rtt, trips(test.rtt)],
    [words.loaded, trips(test.rtt_under_load)],
    [words.sent, bandwidth(test.sent_bytes_per_second)],
    [words.received, bandwidth(test.received_bytes_per_second)],
    [words.heartbeats, words.answered(test.heartbeats, test.unanswered)],
  ];
  return (
    <>
      <dl className="pairs">
        {rows.map(([label, value]) => [
          <dt key={label}>{label}</dt>,
          <dd key={`${label}-value`}>{value}</dd>,
        ])}
      </dl>
      {test.is_simulated && <p className="note warn">{words.simulated}</p>}
    </>
  );
}
