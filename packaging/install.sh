#!/bin/sh
# packaging/install.sh BIN PAGES DESTDIR PREFIX   installs the programs of BIN, the manual pages and completion
# scripts of PAGES, and the files of the service.
#
# An existing configuration is kept. The service is neither enabled nor started; the last lines say how.
set -eu
bin=$1 pages=$2 root=$3 prefix=$4
here=$(cd "$(dirname "$0")" && pwd)

install -D -m 755 -t "$root$prefix/bin" "$bin/ibid" "$bin/ibid-host"
install -D -m 644 -t "$root$prefix/share/man/man1" "$pages"/man1/*
install -D -m 644 "$pages/ibid.bash" "$root$prefix/share/bash-completion/completions/ibid"
install -D -m 644 "$pages/_ibid" "$root$prefix/share/zsh/site-functions/_ibid"
install -D -m 644 "$pages/ibid.fish" "$root$prefix/share/fish/vendor_completions.d/ibid.fish"
install -d "$root/etc/systemd/system" "$root/etc/ibid" "$root/etc/default" "$root/etc/udev/rules.d"
sed "s#/usr/bin/ibid#$prefix/bin/ibid#" "$here/ibid.service" >"$root/etc/systemd/system/ibid.service"
install -m 644 "$here/60-ibid.rules" "$root/etc/udev/rules.d/60-ibid.rules"
[ -e "$root/etc/ibid/ibid.toml" ] || install -m 644 "$here/ibid.toml" "$root/etc/ibid/ibid.toml"
[ -e "$root/etc/default/ibid" ] || install -m 644 "$here/ibid.default" "$root/etc/default/ibid"

cat <<END
installed: $root$prefix/bin/ibid, $root$prefix/bin/ibid-host, $root/etc/systemd/system/ibid.service
To start the service, as root:
  useradd --system --user-group --home-dir /var/lib/ibid --shell /usr/sbin/nologin ibid
  systemctl daemon-reload && systemctl enable --now ibid
END
