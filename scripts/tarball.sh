#!/usr/bin/env bash
# scripts/tarball.sh BIN OUT NAME   packs static programs and the files of the service as OUT/NAME.tar.gz.
#
# A program that needs a shared library is refused. The same input gives the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 out=$2 name=$3
tree=$out/$name

for program in ibid ibid-host; do
    if readelf --program-headers "$bin/$program" | grep -q INTERP; then
        echo "tarball: $bin/$program is not static" >&2
        exit 1
    fi
done
rm -rf "$tree"
install -D -m 755 -t "$tree/bin" "$bin/ibid" "$bin/ibid-host"
strip "$tree/bin/ibid" "$tree/bin/ibid-host"
install -D -m 644 -t "$tree/packaging" packaging/ibid.service packaging/60-ibid.rules packaging/ibid.toml packaging/ibid.default
install -m 755 packaging/install.sh "$tree/packaging/install.sh"
packaging/pages.sh "$tree/bin/ibid" "$tree/pages"
install -m 644 README.md LICENSE CHANGELOG.md docs/install.md "$tree/"
date=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -C "$out" -c "$name" | gzip -n9 >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
