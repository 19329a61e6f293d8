/** Forms of protection groups: schedule and retention, volumes, snapshots. */

import { Select } from '@mantine/core';
import { useState } from 'react';
import { useMembers, useProtectionGroups } from '../api/queries';
import type { ProtectionGroup } from '../api/types';
import { isWholeDays, keptSnapshots, LONGEST, parseTimeOfDay, SHORTEST, timeOfDay } from '../format/schedule';
import { commandTime, parseTime } from '../format/time';
import * as groups from '../groupActions';
import { groupCalls, type Plan, planOf } from '../groupActions';
import { text } from '../text';
import { Field, Form, VolumesSelect } from './Form';

const FIRST_PLAN: Plan = {
  schedule: { enabled: true, frequency: 3_600_000, at: null },
  retention: { all_for_sec: 86_400, per_day: 1, days: 7 },
};

/** A plan as it is typed, and the plan if all of it can be read. */
function usePlan(first: Plan) {
  const [isOn, setOn] = useState(first.schedule.enabled);
  const [every, setEvery] = useState(commandTime(first.schedule.frequency));
  const [at, setAt] = useState(first.schedule.at === null ? '' : timeOfDay(first.schedule.at));
  const [all, setAll] = useState(commandTime(first.retention.all_for_sec * 1000));
  const [perDay, setPerDay] = useState(String(first.retention.per_day));
  const [days, setDays] = useState(String(first.retention.days));
  const frequency = parseTime(every) ?? 0;
  const time = at.trim() === '' || !isWholeDays(frequency) ? null : parseTimeOfDay(at);
  const whole = (typed: string) => (/^\d{1,5}$/.test(typed.trim()) ? Number(typed) : null);
  const retention = {
    all_for_sec: Math.round((parseTime(all) ?? 0) / 1000),
    per_day: whole(perDay) ?? 0,
    days: whole(days) ?? 0,
  };
  const errors = {
    every: frequency < SHORTEST || frequency > LONGEST,
    at: isWholeDays(frequency) && at.trim() !== '' && time === null,
    all: parseTime(all) === null,
    perDay: whole(perDay) === null,
    days: whole(days) === null,
  };
  const plan: Plan = { schedule: { enabled: isOn, frequency, at: time }, retention };
  const fields = { isOn, setOn, every, setEvery, at, setAt, all, setAll, perDay, setPerDay, days, setDays };
  return { fields, errors, plan, isValid: !Object.values(errors).includes(true) };
}

function PlanFields({ of }: { of: ReturnType<typeof usePlan> }) {
  const { fields, errors, plan } = of;
  const kept = keptSnapshots(plan.schedule.frequency, plan.retention);
  return (
    <>
      <label className="check">
        <input
          type="checkbox"
          checked={fields.isOn}
          onChange={(event) => fields.setOn(event.currentTarget.checked)}
        />
        {text.forms.runs}
      </label>
      <div className="fields pair">
        <Field
          label={text.forms.every}
          value={fields.every}
          onChange={fields.setEvery}
          hint={text.forms.everyHint}
          error={errors.every ? text.forms.everyUnreadable : null}
        />
        <Field
          label={text.forms.at}
          value={isWholeDays(plan.schedule.frequency) ? fields.at : ''}
          onChange={fields.setAt}
          hint={text.forms.atHint}
          error={errors.at ? text.forms.atUnreadable : null}
          disabled={!isWholeDays(plan.schedule.frequency)}
        />
      </div>
      <Field
        label={text.forms.keepAll}
        value={fields.all}
        onChange={fields.setAll}
        hint={text.forms.keepAllHint}
        error={errors.all ? text.settings.unreadable : null}
      />
      <div className="fields pair">
        <Field
          label={text.forms.perDay}
          value={fields.perDay}
          onChange={fields.setPerDay}
          hint={text.forms.perDayHint}
          error={errors.perDay ? text.forms.notWhole : null}
        />
        <Field
          label={text.forms.forDays}
          value={fields.days}
          onChange={fields.setDays}
          hint={text.forms.forDaysHint}
          error={errors.days ? text.forms.notWhole : null}
        />
      </div>
      {of.isValid && (
        <p className="note" role="status">
          {text.protection.plan(plan.schedule, plan.retention)} {text.protection.kept(kept)}
        </p>
      )}
    </>
  );
}

export function ProtectionGroupForm({ names }: { names: string[] }) {
  const [name, setName] = useState('');
  const [volumes, setVolumes] = useState(names);
  const plan = usePlan(FIRST_PLAN);
  const lines = [groupCalls.create(name || 'NAME', plan.plan)];
  if (volumes.length > 0) lines.push(groupCalls.addVolumes(name || 'NAME', volumes));
  return (
    <Form
      note={text.forms.groupNote}
      verb={text.verbs.newGroup}
      command={lines.join('\n')}
      isReady={name !== '' && plan.isValid}
      run={() => groups.createGroup(name, plan.plan, volumes)}
    >
      <Field label={text.common.name} value={name} onChange={setName} hint={text.forms.nameHint} first />
      <VolumesSelect label={text.volumes.title} value={volumes} onChange={setVolumes} without={[]} />
      <PlanFields of={plan} />
    </Form>
  );
}

export function PlanForm({ group }: { group: ProtectionGroup }) {
  const plan = usePlan(planOf(group));
  return (
    <Form
      note={text.forms.planNote}
      verb={text.verbs.save}
      command={groupCalls.plan(group.name, plan.plan)}
      isReady={plan.isValid}
      run={() => groups.setPlan(group, plan.plan)}
    >
      <PlanFields of={plan} />
    </Form>
  );
}

/** Adds volumes that are chosen here to a group. */
export function AddVolumesForm({ group }: { group: string }) {
  const [volumes, setVolumes] = useState<string[]>([]);
  const members = useMembers({ group });
  return (
    <Form
      note={text.forms.addVolumesNote}
      verb={text.verbs.addVolumes}
      command={groupCalls.addVolumes(group, volumes.length > 0 ? volumes : ['VOLUME'])}
      isReady={volumes.length > 0}
      run={() => groups.addVolumes(group, volumes)}
    >
      <VolumesSelect
        label={text.volumes.title}
        value={volumes}
        onChange={setVolumes}
        without={(members.data ?? []).map(({ member }) => member.name ?? '')}
      />
    </Form>
  );
}

/** Adds volumes that are chosen already to a group. */
export function ProtectForm({ names }: { names: string[] }) {
  const [group, setGroup] = useState<string | null>(null);
  const all = useProtectionGroups();
  const present = (all.data ?? []).filter(({ destroyed }) => !destroyed);
  const chosen = present.find(({ name }) => name === group);
  return (
    <Form
      note={text.forms.protectNote}
      verb={text.verbs.protect}
      command={groupCalls.addVolumes(group ?? 'GROUP', names)}
      isReady={group !== null}
      run={() => groups.addVolumes(group ?? '', names)}
    >
      <Select
        label={text.forms.group}
        value={group}
        onChange={setGroup}
        data={present.map(({ name }) => name)}
        placeholder={all.data && present.length === 0 ? text.forms.noGroups : undefined}
        searchable
        limit={100}
        comboboxProps={{ withinPortal: false }}
        data-autofocus
      />
      {chosen && (
        <p className="note">{text.protection.plan(chosen.snapshot_schedule, chosen.source_retention)}</p>
      )}
    </Form>
  );
}

export function GroupSnapshotForm({ group }: { group: string }) {
  const [suffix, setSuffix] = useState('');
  return (
    <Form
      note={text.forms.groupSnapshotNote}
      verb={text.verbs.snapshot}
      command={groupCalls.snapshot(group, suffix)}
      isReady
      run={() => groups.snapshotGroup(group, suffix)}
    >
      <Field
        label={text.forms.suffix}
        value={suffix}
        onChange={setSuffix}
        hint={text.forms.suffixHint}
        first
      />
    </Form>
  );
}

export function RestoreGroupForm({ snapshot, volumes }: { snapshot: string; volumes: string[] }) {
  return (
    <Form
      note={text.forms.restoreGroupNote(volumes)}
      verb={text.verbs.restore}
      command={groupCalls.restore(snapshot, volumes)}
      isReady={volumes.length > 0}
      run={() => groups.restoreGroup(snapshot, volumes)}
    />
  );
}

export function EradicateGroupForm({ name }: { name: string }) {
  const [typed, setTyped] = useState('');
  return (
    <Form
      note={text.forms.eradicateGroupNote}
      verb={text.verbs.eradicate}
      command={groupCalls.eradicate(name)}
      isReady={typed === name}
      isDanger
      run={() => groups.eradicateGroup(name)}
    >
      <Field label={text.forms.typeName(name)} value={typed} onChange={setTyped} first />
    </Form>
  );
}
