/** Keys that work on every page, except in a field or a dialog, and the dialog that lists them. */

import { Modal } from '@mantine/core';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { refresh } from '../api/queries';
import { text } from '../text';
import { useMay } from './May';
import { undoLast } from './notices';
import { open } from './request';
import { step } from './step';

/** Pages by the key after G. */
const PAGES = {
  o: '/',
  v: '/volumes',
  p: '/protection',
  h: '/hosts',
  g: '/host-groups',
  d: '/pods',
  n: '/array-connections',
  f: '/performance',
  a: '/array',
  l: '/alerts',
  c: '/activity',
  s: '/settings',
} as const;

/** Keys of one letter can be turned off, because speech input may press them by mistake. */
const STORED = 'ibid-keys';
let areOn = globalThis.localStorage?.getItem(STORED) !== 'off';

/** Moves the focus between the links of the lists of a page. */
function moveFocus(by: 1 | -1, key: string) {
  // The list of volumes keeps its own row, because most of its rows are not in the document.
  const rows = document.querySelector<HTMLElement>('.row-scroll');
  if (rows) {
    rows.focus();
    rows.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    return;
  }
  const links = [...document.querySelectorAll('main .items a, main .table a')];
  const row = document.activeElement?.closest('li, tr')?.querySelector('a') ?? null;
  const next = step(links, row, by);
  if (next instanceof HTMLElement) next.focus();
}

const STEPS: Record<string, 1 | -1> = { j: 1, k: -1 };

export function useKeys(openPalette: () => void, openKeys: () => void) {
  const navigate = useNavigate();
  const mayCreate = useMay('storage_admin');
  const awaitsPage = useRef(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        openPalette();
        return;
      }
      const target = event.target instanceof Element ? event.target : null;
      const key = event.key.toLowerCase();
      const by = STEPS[key];
      const isField = target?.closest('input, textarea, select, [role=dialog]');
      const isOwnRow = by && target?.closest('.row-scroll');
      if (!areOn || event.ctrlKey || event.metaKey || event.altKey || isField || isOwnRow) return;
      const page = Object.entries(PAGES).find(([letter]) => letter === key)?.[1];
      if (awaitsPage.current && page) navigate({ to: page });
      else if (key === 'n' && mayCreate) open({ kind: 'create' });
      else if (key === 'z') undoLast();
      else if (key === 'r') refresh();
      else if (key === '?') openKeys();
      else if (key === '/') document.querySelector<HTMLInputElement>('.filter input')?.focus();
      else if (by) moveFocus(by, key);
      else {
        awaitsPage.current = key === 'g';
        return;
      }
      awaitsPage.current = false;
      event.preventDefault();
    };
    window.addEventListener('keydown', onKey);
    return () => window.removeEventListener('keydown', onKey);
  }, [navigate, openPalette, openKeys, mayCreate]);
}

export function KeysDialog({ isOpen, close }: { isOpen: boolean; close: () => void }) {
  const [isOn, setOn] = useState(areOn);
  const choose = (isOn: boolean) => {
    areOn = isOn;
    setOn(isOn);
    if (isOn) localStorage.removeItem(STORED);
    else localStorage.setItem(STORED, 'off');
  };
  return (
    <Modal
      opened={isOpen}
      onClose={close}
      title={text.keys.title}
      centered
      closeButtonProps={{ 'aria-label': text.common.close }}
    >
      <dl className="pairs">
        {text.keys.list.map(([key, meaning]) => [
          <dt key={`${key}-k`}>
            <kbd>{key}</kbd>
          </dt>,
          <dd key={`${key}-m`}>{meaning}</dd>,
        ])}
      </dl>
      <label className="check rule">
        <input type="checkbox" checked={isOn} onChange={(event) => choose(event.currentTarget.checked)} />
        {text.keys.isOn}
      </label>
    </Modal>
  );
}
