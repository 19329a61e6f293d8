/** Reports of the lab: `report.json` of `ibid-host lab`, checked with the schema that the lab publishes. */

import published from '../../../docs/lab-data/report.schema.json';

export const UNITS = [
  'seconds',
  'milliseconds',
  'per_second',
  'mib_per_second',
  'mebibytes',
  'count',
  'times',
  'percent',
] as const;
export type Unit = (typeof UNITS)[number];
export type Interval = { low: number; high: number };
export type GoalVerdict = 'met' | 'missed' | 'cannot_tell';
export type Verdict =
  | 'failed'
  | 'not_possible'
  | 'fall_back'
  | 'measured'
  | 'goal_met'
  | 'goal_missed'
  | 'cannot_tell';
export type Figure = {
  name: string;
  unit: Unit;
  measured: number | null;
  published: number | null;
  goal: { at_least: number } | { at_most: number } | null;
  interval: Interval | null;
  verdict: GoalVerdict | null;
};
export type Axis = { label: string; unit: Unit; log: boolean };
export type Point = { x: number; y: number; ends: [number, number] | null };
export type PlotSeries = { name: string; role: 'without' | 'with' | { nth: number }; points: Point[] };
export type Plot = {
  title: string;
  shape: 'bars' | 'lines' | 'time';
  x: Axis;
  y: Axis;
  /** Names of the groups of bars. */
  places: string[];
  series: PlotSeries[];
  bands: { from: number; to: number; name: string }[];
};
export type Quote = { text: string; document: string; section: string };
export type Note = { kind: 'unsupported' | 'extrapolated' | 'left_out' | 'short'; text: string };
export type Outcome = {
  id: string;
  name: string;
  title: string;
  question: string;
  published: { quotes: Quote[]; plots: Plot[] };
  ending: { state: 'done' } | { state: 'not_possible' | 'failed'; reason: string };
  verdict: Verdict;
  findings: {
    setup: string;
    plots: Plot[];
    figures: Figure[];
    notes: Note[];
    expected: string;
    seen: string[];
    why: string[];
  };
  load: { before: number; after: number; busy: number; steal: number; foreign: number };
  secs: number;
};
export type Report = {
  schema: number;
  settings: { command: string };
  version: string;
  revision: string;
  scale: 'small' | 'paper' | 'capture';
  begun: number;
  secs: number;
  repetitions: number;
  subject: { identity: string; target: string; portals: string[]; disks: string[]; own: boolean };
  machine: { cpus: number; processor: string; kernel: string; memory: number };
  outcomes: Outcome[];
};

/** The part of JSON Schema that the published schema uses. */
type Schema = {
  $ref?: string;
  const?: unknown;
  enum?: unknown[];
  type?: string | string[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean;
};

const TEXT: Schema = { type: 'string' };
const NUMBER: Schema = { type: 'number' };
const object = (properties: Record<string, Schema>): Schema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** Parts that the published schema only describes in words. */
const MORE: Record<string, Record<string, Schema>> = {
  outcome: {
    published: object({
      quotes: { type: 'array', items: object({ text: TEXT, document: TEXT, section: TEXT }) },
      plots: { type: 'array', items: { $ref: '#/$defs/plot' } },
    }),
    ending: {
      anyOf: [
        object({ state: { const: 'done' } }),
        object({ state: { enum: ['not_possible', 'failed'] }, reason: TEXT }),
      ],
    },
  },
  figure: {
    goal: { anyOf: [object({ at_least: NUMBER }), object({ at_most: NUMBER }), { type: 'null' }] },
  },
};
const ROLE: Schema = { anyOf: [{ enum: ['without', 'with'] }, object({ nth: { type: 'integer' } })] };

const definitions: Record<string, Schema> = structuredClone(published.$defs) as Record<string, Schema>;
for (const [name, properties] of Object.entries(MORE)) {
  Object.assign(definitions[name]?.properties ?? {}, properties);
}
Object.assign(definitions.plot?.properties?.series?.items?.properties ?? {}, { role: ROLE });

export const VERSION = published.properties.schema.const;
/** Largest file that is read, in bytes. */
export const MOST_BYTES = 64 * 1024 * 1024;

/** Why a file is not a report: the place in it, and what is wrong there. */
export type Fault =
  | { kind: 'size' | 'json' | 'other' }
  | { kind: 'version'; found: string; wanted: string }
  | { kind: 'missing' | 'unknown'; at: string }
  | { kind: 'value'; at: string; found: string; wanted: string };

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

function isOfType(value: unknown, wanted: string | string[]): boolean {
  const found = typeOf(value);
  return [wanted].flat().some((type) => type === found || (type === 'number' && found === 'integer'));
}

const shown = (value: unknown) => (JSON.stringify(value) ?? 'undefined').slice(0, 60);

/** The first place where a value differs from a schema. */
function faultOf(value: unknown, schema: Schema, at: string): Fault | null {
  if (schema.$ref) return faultOf(value, definitions[schema.$ref.split('/').at(-1) ?? ''] ?? {}, at);
  const wrong = (wanted: string): Fault => ({ kind: 'value', at, found: shown(value), wanted });
  if (schema.anyOf) {
    const faults = schema.anyOf.map((one) => faultOf(value, one, at));
    if (faults.includes(null)) return null;
    // The fault within a part is closer to the cause than that of the whole.
    return faults.find((fault) => fault && 'at' in fault && fault.at !== at) ?? faults[0] ?? null;
  }
  if ('const' in schema && value !== schema.const) return wrong(shown(schema.const));
  if (schema.enum && !schema.enum.includes(value)) return wrong(schema.enum.map(shown).join(', '));
  if (schema.type && !isOfType(value, schema.type)) return wrong([schema.type].flat().join(', '));
  if (Array.isArray(value)) {
    const items = schema.items;
    if (!items) return null;
    for (const [index, item] of value.entries()) {
      const fault = faultOf(item, items, `${at}[${index}]`);
      if (fault) return fault;
    }
    return null;
  }
  if (typeof value !== 'object' || value === null || !schema.properties) return null;
  const below = (name: string) => (at === '' ? name : `${at}.${name}`);
  const absent = schema.required?.find((name) => !Object.hasOwn(value, name));
  if (absent !== undefined) return { kind: 'missing', at: below(absent) };
  for (const [name, part] of Object.entries(value)) {
    const known = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
    if (!known) {
      if (schema.additionalProperties === false) return { kind: 'unknown', at: below(name) };
      continue;
    }
    const fault = faultOf(part, known, below(name));
    if (fault) return fault;
  }
  return null;
}

/** Reads the text of a file. */
export function parseReport(content: string): { report: Report } | { fault: Fault } {
  if (content.length > MOST_BYTES) return { fault: { kind: 'size' } };
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch {
    return { fault: { kind: 'json' } };
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject || !Object.hasOwn(value as object, 'schema')) return { fault: { kind: 'other' } };
  const { schema } = value as { schema: unknown };
  if (schema !== VERSION) return { fault: { kind: 'version', found: shown(schema), wanted: shown(VERSION) } };
  const fault = faultOf(value, published as Schema, '');
  return fault ? { fault } : { report: value as Report };
}
