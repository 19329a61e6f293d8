/** Actions of the frame: the theme, and the end of the session. */

import { useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { logOut } from '../api/client';
import { queryClient } from '../api/queries';
import { endSession } from '../api/session';

export function useThemeSwitch(): () => void {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  return () => setColorScheme(scheme === 'dark' ? 'light' : 'dark');
}

export async function leave() {
  await logOut().catch(() => undefined);
  queryClient.clear();
  endSession();
}
