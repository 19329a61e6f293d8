/** Goes to a page or a volume, or runs a command, by typing a part of its name. */

import { Modal, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, useEffect, useId, useState } from 'react';
import * as actions from '../actions';
import { volumeWindow } from '../api/queries';
import { translate } from '../format/filter';
import { text } from '../text';
import { Name } from './common';
import { open as openDialog, perform } from './request';

type Entry = { label: string; command?: string; run: () => void };
const MOST_VOLUMES = 8;

export function Palette({ isOpen, close }: { isOpen: boolean; close: () => void }) {
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      withCloseButton={false}
      title={text.palette.title}
      zIndex={320}
      size={620}
      yOffset="12vh"
    >
      {isOpen && <Search close={close} />}
    </Modal>
  );
}

function useEntries(typed: string): Entry[] {
  const navigate = useNavigate();
  const filter = translate(/^[\w.-]+$/.test(typed) ? typed : '');
  const view = { filter, sort: 'name', destroyed: false };
  const volumes = useQuery({ ...volumeWindow(view, 0), enabled: filter !== '' });
  const found = filter === '' ? [] : (volumes.data?.items ?? []).slice(0, MOST_VOLUMES);
  const fixed: Entry[] = [
    { label: text.nav.overview, run: () => navigate({ to: '/' }) },
    { label: text.nav.volumes, command: 'ibid volume list', run: () => navigate({ to: '/volumes' }) },
    { label: text.nav.protection, command: 'ibid snap list', run: () => navigate({ to: '/protection' }) },
    { label: text.nav.hosts, command: 'ibid host list', run: () => navigate({ to: '/hosts' }) },
    { label: text.nav.arrayAndPorts, command: 'ibid array show', run: () => navigate({ to: '/array' }) },
    { label: text.nav.alerts, command: 'ibid alert list', run: () => navigate({ to: '/alerts' }) },
    { label: text.nav.activity, run: () => navigate({ to: '/activity' }) },
    { label: text.nav.settings, command: 'ibid array set', run: () => navigate({ to: '/settings' }) },
    { label: text.nav.help, run: () => navigate({ to: '/first-run' }) },
    { label: text.verbs.create, command: 'ibid volume create', run: () => openDialog({ kind: 'create' }) },
    { label: text.verbs.addHost, command: 'ibid host create', run: () => openDialog({ kind: 'host' }) },
    { label: text.verbs.scrub, command: 'ibid scrub start', run: () => perform(actions.startScrub) },
  ];
  const wanted = typed.toLowerCase();
  const matches = fixed.filter((entry) =>
    `${entry.label} ${entry.command ?? ''}`.toLowerCase().includes(wanted),
  );
  const opened = found.map((volume) => ({
    label: text.verbs.showVolume(volume.name),
    command: `ibid volume show ${volume.name}`,
    run: () => navigate({ to: '/volumes/$name', params: { name: volume.name } }),
  }));
  return [...matches, ...opened];
}

function Search({ close }: { close: () => void }) {
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const entries = useEntries(typed.trim());
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text has another first entry
  useEffect(() => setAt(0), [typed]);
  const choose = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((at + step + entries.length) % Math.max(1, entries.length));
    else if (event.key === 'Enter') choose(entries[at]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <TextInput
        aria-label={text.palette.input}
        placeholder={text.palette.input}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        role="combobox"
        aria-expanded
        aria-controls={id}
        aria-activedescendant={entries[at] ? `${id}-${at}` : undefined}
        autoComplete="off"
        data-autofocus
      />
      <div className="palette-list" role="listbox" id={id} aria-label={text.palette.title}>
        {entries.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the text field
          <div
            key={entry.label}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onClick={() => choose(entry)}
          >
            <Name>{entry.label}</Name>
            {entry.command && <span className="mono">{entry.command}</span>}
          </div>
        ))}
      </div>
      {entries.length === 0 && <p className="center">{text.palette.empty}</p>}
    </>
  );
}
