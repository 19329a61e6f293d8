/** Goes to a page or an object, or runs a command, by typing a part of its name. */

import { Modal, TextInput } from '@mantine/core';
import { type KeyboardEvent, useEffect, useId, useState } from 'react';
import { text } from '../text';
import { Name } from './common';
import { type Entry, useEntries } from './verbs';

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

function Search({ close }: { close: () => void }) {
  const [typed, setTyped] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const entries = useEntries(typed.trim());
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text has another first entry
  useEffect(() => setAt(0), [typed]);
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: 'nearest' });
  }, [id, at]);
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
            key={`${entry.label} ${entry.command ?? ''}`}
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
