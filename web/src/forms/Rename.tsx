/** Renames an object of any kind. */

import { useState } from 'react';
import * as access from '../accessActions';
import * as actions from '../actions';
import * as groups from '../groupActions';
import type { Kind } from '../parts/request';
import * as pods from '../podActions';
import { text } from '../text';
import { Field, Form } from './Form';

type Way = { command: (name: string, to: string) => string; run: typeof actions.rename };

const WAYS: Record<Kind, Way> = {
  volume: { command: actions.commands.rename, run: actions.rename },
  host: { command: access.accessCommands.renameHost, run: access.renameHost },
  hostGroup: { command: access.accessCommands.renameHostGroup, run: access.renameHostGroup },
  protectionGroup: { command: groups.groupCalls.rename, run: groups.renameGroup },
  pod: { command: pods.podCommands.rename, run: pods.renamePod },
};

export type Renamed = (kind: Kind, name: string) => void;

export function RenameForm({ of, name, onRenamed }: { of: Kind; name: string; onRenamed: Renamed }) {
  // A volume keeps its pod or volume group.
  const [container, own] = of === 'volume' ? pods.nameParts(name) : ['', name];
  const [typed, setTyped] = useState(own);
  const to = container + typed;
  const run = async () => {
    const done = await WAYS[of].run(name, to);
    onRenamed(of, to);
    return done;
  };
  const hint = container === '' ? text.forms.nameHint : text.forms.ownName(container);
  return (
    <Form
      verb={text.verbs.rename}
      command={WAYS[of].command(name, typed === '' ? 'NAME' : to)}
      isReady={typed !== '' && to !== name}
      run={run}
    >
      <Field label={text.forms.newName} value={typed} onChange={setTyped} hint={hint} first />
    </Form>
  );
}
