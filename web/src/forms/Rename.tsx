/** Renames an object of any kind. */

import { useState } from 'react';
import * as access from '../accessActions';
import * as actions from '../actions';
import * as groups from '../groupActions';
import type { Kind } from '../parts/request';
import { text } from '../text';
import { Field, Form } from './Form';

type Way = { command: (name: string, to: string) => string; run: typeof actions.rename };

const WAYS: Record<Kind, Way> = {
  volume: { command: actions.commands.rename, run: actions.rename },
  host: { command: access.accessCommands.renameHost, run: access.renameHost },
  hostGroup: { command: access.accessCommands.renameHostGroup, run: access.renameHostGroup },
  protectionGroup: { command: groups.groupCalls.rename, run: groups.renameGroup },
};

export type Renamed = (kind: Kind, name: string) => void;

export function RenameForm({ of, name, onRenamed }: { of: Kind; name: string; onRenamed: Renamed }) {
  const [typed, setTyped] = useState(name);
  const run = async () => {
    const done = await WAYS[of].run(name, typed);
    onRenamed(of, typed);
    return done;
  };
  return (
    <Form
      verb={text.verbs.rename}
      command={WAYS[of].command(name, typed || 'NAME')}
      isReady={typed !== '' && typed !== name}
      run={run}
    >
      <Field label={text.forms.newName} value={typed} onChange={setTyped} hint={text.forms.nameHint} first />
    </Form>
  );
}
