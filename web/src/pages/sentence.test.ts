import { expect, it } from 'vitest';
import { failure } from '../api/client';
import { cause, sentence } from './sentence';

const alert = (code: number, severity = 'warning') => ({ code, severity });

it('says the worst first', () => {
  expect(sentence('ok', [])).toBe('All data served.');
  expect(sentence('ok', [alert(1)])).toBe('All data served. One thing needs a look.');
  expect(sentence('ok', [alert(1), alert(2)])).toBe('All data served. Two things need a look.');
  expect(sentence('degraded', [alert(3, 'critical')])).toBe(
    'Something critical needs you. One thing needs a look.',
  );
  expect(sentence('degraded', [alert(12, 'critical')])).toBe('The array has stopped serving writes.');
  expect(sentence('stopped', [])).toBe('The array has stopped serving writes.');
  expect(sentence('read-only', [])).toBe('The array has stopped serving writes.');
});

it('names the alert that stops writes', () => {
  expect(cause([alert(1), alert(12)])?.code).toBe(12);
  expect(cause([alert(1)])).toBeUndefined();
});

it('keeps the words of the array', () => {
  const body = { errors: [{ code: 'volume_exists', context: 'vm1', message: 'Volume already exists.' }] };
  const error = failure(400, JSON.stringify(body));
  expect([error.code, error.context, error.message]).toEqual([
    'volume_exists',
    'vm1',
    'Volume already exists.',
  ]);
  expect(failure(429, '{"message":"wait"}').code).toBe('too_many_logins');
  expect(failure(502, '<html>').message).toContain('502');
});
