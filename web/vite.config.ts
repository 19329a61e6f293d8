import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import react from '@vitejs/plugin-react';
import { defineConfig, type Plugin } from 'vite';

const OUT = join(import.meta.dirname, '../array/console/assets');
/** Files with these endings are stored compressed as well. Fonts are compressed already. */
const COMPRESSIBLE = /\.(js|css|svg)$/;

/** Removes the files of the build before, and adds the compressed forms of the new ones. */
function embed(): Plugin {
  const folder = join(OUT, 'assets');
  return {
    name: 'embed',
    apply: 'build',
    buildStart() {
      rmSync(folder, { recursive: true, force: true });
    },
    closeBundle() {
      for (const name of readdirSync(folder).filter((name) => COMPRESSIBLE.test(name))) {
        const path = join(folder, name);
        const plain = readFileSync(path);
        const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
        writeFileSync(`${path}.br`, brotliCompressSync(plain, quality));
        writeFileSync(`${path}.gz`, gzipSync(plain, { level: 9 }));
      }
    },
  };
}

export default defineConfig({
  base: '/console/',
  plugins: [react(), embed()],
  build: {
    outDir: OUT,
    emptyOutDir: false,
    // An inlined font would be a data: address, which the policy of the page refuses.
    assetsInlineLimit: 0,
    target: 'es2022',
    modulePreload: { polyfill: false },
  },
});
