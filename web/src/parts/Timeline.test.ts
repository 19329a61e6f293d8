import { expect, it } from 'vitest';
import { placed } from './Timeline';

const moment = (time: number, isFaint = false) => ({ key: String(time), time, label: 'x', isFaint });

it('places moments within the span, the later of two that are too close', () => {
  const shown = placed([moment(1000), moment(500), moment(501), moment(1001), moment(-1)], [0, 1000]);
  expect(shown.map(({ time, at }) => [time, at])).toEqual([
    [501, 0.501],
    [1000, 1],
  ]);
});

it('keeps a destroyed moment beside one that is not', () => {
  expect(placed([moment(500, true), moment(501)], [0, 1000])).toHaveLength(2);
});
