/**
 * Writes src/api/schema.ts, the types of the REST interface, from its OpenAPI document. With `--check` it writes nothing, and
 * fails if the file is not current.
 */

import { readFileSync, writeFileSync } from 'node:fs';
import { compile } from 'json-schema-to-typescript';

const DOCUMENT = new URL('../docs/openapi.json', import.meta.url);
const FILE = new URL('src/api/schema.ts', import.meta.url);
const ROOT = '/api/2.26';
const BANNER = '/** Types of the REST interface. `npm run types` writes this file from docs/openapi.json. */';

const { components, paths } = JSON.parse(readFileSync(DOCUMENT, 'utf8'));
const nameOf = (reference) => reference.split('/').at(-1);

/** A schema in which each reference is its name, so that an object has one type wherever it is. */
function named(schema) {
  if (Array.isArray(schema)) return schema.map(named);
  if (schema === null || typeof schema !== 'object') return schema;
  const { $ref, ...rest } = schema;
  const own = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, named(value)]));
  return $ref === undefined ? own : { ...own, tsType: nameOf($ref) };
}

/** The list of each path that has one, and the type of its items. */
function lists() {
  const lines = [];
  for (const [path, { get }] of Object.entries(paths)) {
    const page = get?.responses[200]?.content?.['application/json']?.schema.$ref;
    const items = page && components.schemas[nameOf(page)].properties.items?.items?.$ref;
    if (items && path.startsWith(`${ROOT}/`)) lines.push(`  '${path.slice(ROOT.length)}': ${nameOf(items)};`);
  }
  return `/** Items of lists, by the path of the list. */\nexport interface Lists {\n${lines.join('\n')}\n}\n`;
}

/** What the types of bodies and answers are made of, without the pages of lists. */
const schemas = Object.entries(components.schemas).filter(([name]) => !name.endsWith('Page'));
const options = {
  additionalProperties: false,
  bannerComment: '',
  style: { printWidth: 110 },
  unreachableDefinitions: true,
};
const parts = [];
for (const [name, schema] of schemas) {
  const part = await compile(named(schema), name, options);
  // The library capitalizes letters after digits.
  parts.push(part.replace(/^(export (?:interface|type) )\w+/m, `$1${name}`));
}
const text = `${BANNER}\n\n${[...parts, lists()].map((part) => part.trim()).join('\n\n')}\n`;

if (!process.argv.includes('--check')) writeFileSync(FILE, text);
else if (readFileSync(FILE, 'utf8') !== text) {
  process.stderr.write('src/api/schema.ts is not current: run `npm run types` in web/\n');
  process.exit(1);
}
