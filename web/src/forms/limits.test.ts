import { describe, expect, it } from 'vitest';
import { NO_BANDWIDTH_LIMIT, NO_IOPS_LIMIT } from '../actions';
import { readLimits } from './limits';

const NO_ERROR = { bandwidth: false, iops: false, threshold: false };

describe('limits', () => {
  it('that are empty are removed', () => {
    const none = { bandwidth: NO_BANDWIDTH_LIMIT, iops: NO_IOPS_LIMIT, threshold: 0, error: NO_ERROR };
    expect(readLimits('', ' ', '')).toEqual(none);
  });
  it('are read with their units', () => {
    const read = readLimits('200M', '5000', '80');
    expect(read).toEqual({ bandwidth: 200 * 2 ** 20, iops: 5000, threshold: 80, error: NO_ERROR });
  });
  it('out of the range of the array are errors', () => {
    expect(readLimits('1K', '99', '101').error).toEqual({ bandwidth: true, iops: true, threshold: true });
    expect(readLimits('1PiB', '1e3', '0').error).toEqual({ bandwidth: true, iops: true, threshold: true });
    expect(readLimits('fast', '1.5', 'x').error).toEqual({ bandwidth: true, iops: true, threshold: true });
  });
});
