#!/bin/sh
# packaging/pages.sh IBID OUT   writes the manual pages and the completion scripts of the program.
set -eu
ibid=$1 out=$2
rm -rf "$out"
mkdir -p "$out"
"$ibid" manual "$out/man1"
gzip -n9 "$out"/man1/*.1
"$ibid" completion bash >"$out/ibid.bash"
"$ibid" completion zsh >"$out/_ibid"
"$ibid" completion fish >"$out/ibid.fish"
