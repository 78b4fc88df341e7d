#!/usr/bin/env bash
# Tests the console with the screen reader Orca in Chromium: three views, by keys alone. The script
# checks the texts that Orca speaks, and writes all of them to bin/orca/said. It needs, on Debian:
# apt-get install chromium orca xvfb xdotool at-spi2-core speech-dispatcher dbus. It starts its own X
# server and its own D-Bus, and a module of speech-dispatcher without sound.
#
# KELSON is the kelson binary, by default bin/kelson.
set -euo pipefail
cd "$(dirname "$0")/../.."

for program in chromium orca Xvfb xdotool dbus-run-session gdbus; do
	command -v "$program" >/dev/null || { echo "SKIPPED: $program is not installed"; exit 0; }
done

if [ "${1:-}" != inside ]; then
	kelson=$(realpath "${KELSON:-bin/kelson}")
	work=$(mktemp -d)
	mkdir -p bin/orca
	out=$(realpath bin/orca)
	"$kelson" serve --in-memory --node=simulated --secure-port 0 --kubeconfig "$work/kubeconfig" >"$work/serve.log" 2>&1 &
	server=$!
	trap 'kill $server $(cat "$work/pids" 2>/dev/null) 2>/dev/null || true; wait; rm -rf "$work" 2>/dev/null || rm -rf "$work"' EXIT
	export KUBECONFIG=$work/kubeconfig
	until grep -q ready "$work/serve.log" 2>/dev/null; do kill -0 $server; sleep 0.1; done
	cat >"$work/trace" <<-EOF
		{"id":1,"run":"aaaa","time":"2026-11-25T21:00:00Z","controller":"deploy","kind":"Deployment","namespace":"default","name":"web","causes":[{"event":"add","kind":"Deployment","namespace":"default","name":"web","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"settings","resourceVersion":"8","changed":true}],"duration":"1.2ms"}
		{"id":1,"run":"bbbb","time":"2026-11-25T21:00:01Z","controller":"pods","kind":"ConfigMap","namespace":"default","name":"settings","causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"settings","resourceVersion":"8","manager":"deploy"}],"error":"create Pod worker: quota exceeded","duration":"12ms"}
	EOF
	"$kelson" kubectl create configmap settings --from-literal=size=1
	"$kelson" kubectl create configmap other
	"$kelson" console --write --trace "$work/trace" >"$work/console.log" 2>&1 &
	echo $! >"$work/pids"
	until grep -q http "$work/console.log" 2>/dev/null; do kill -0 "$(cat "$work/pids")"; sleep 0.1; done
	url=${CONSOLE_URL:-$(sed -n 's/^console: //p' "$work/console.log")}
	dbus-run-session -- "$0" inside "$work" "$url" "$kelson" "$out" 2>"$out/errors"
	exit
fi

work=$2 url=$3 kelson=$4 out=$5
export DISPLAY=:${ORCA_DISPLAY:-77} HOME=$work/home XDG_RUNTIME_DIR=$work/run LANG=C.UTF-8 ACCESSIBILITY_ENABLED=1
mkdir -p "$HOME/.config/speech-dispatcher" "$HOME/.local/share/orca" "$XDG_RUNTIME_DIR"
chmod 700 "$XDG_RUNTIME_DIR"
printf 'AddModule "dummy" "sd_dummy" ""\nDefaultModule dummy\n' >"$HOME/.config/speech-dispatcher/speechd.conf"
# Orca does not say the names of keys.
echo '{"general": {"enableKeyEcho": false, "startingProfile": ["Default", "default"]}, "profiles": {"default": {"profile": ["Default", "default"], "enableKeyEcho": false}}, "pronunciations": {}, "keybindings": {}}' >"$HOME/.local/share/orca/user-settings.conf"
# Orca reads this file when it starts. It makes Orca write each line of its log at once.
cat >"$HOME/.local/share/orca/orca-customizations.py" <<-'EOF'
	import os
	from orca import debug
	debug.debugFile = open(os.environ["ORCA_LOG"], "w", buffering=1)
EOF
export ORCA_LOG=$work/orca

Xvfb "$DISPLAY" -screen 0 1280x800x24 >"$work/xvfb.log" 2>&1 &
pids=$!
/usr/libexec/at-spi-bus-launcher --launch-immediately >"$work/atspi.log" 2>&1 &
pids="$pids $!"
trap 'kill $pids 2>/dev/null || true; wait $pids 2>/dev/null || true' EXIT
status() { gdbus call --session --dest org.a11y.Bus --object-path /org/a11y/bus --method org.freedesktop.DBus.Properties.Set org.a11y.Status "$1" '<true>' >/dev/null 2>&1; }
until status IsEnabled && status ScreenReaderEnabled; do sleep 0.1; done
orca --replace --debug-file="$work/orca.debug" >"$work/orca.err" 2>&1 &
pids="$pids $!"

# The log of Orca has a line for each utterance. said prints the utterances from line $from on.
from=1
clean="s/^.*SPEECH OUTPUT: .//; s/'\{'established.*$//; s/[[:space:]]*'?[[:space:]]*$//"
said() { tail -n "+$from" "$work/orca" 2>/dev/null | grep -a 'SPEECH OUTPUT:' | sed -E "$clean"; }
# heard succeeds if Orca has said a text, in one or several utterances, since the last text that it
# found.
heard() {
	local next
	next=$(awk -v from="$from" -v want="$1" '
		NR >= from && /SPEECH OUTPUT:/ {
			sub(/^.*SPEECH OUTPUT: ./, ""); sub(/.(\{.established.*)?$/, "")
			text = text " " tolower($0); gsub(/[[:space:]]+/, " ", text)
			if (index(text, tolower(want))) { print NR + 1; exit }
		}' "$work/orca" 2>/dev/null || true)
	[ -n "$next" ] && from=$next
}
missing() {
	echo "$1; since then, Orca said:"
	said | tail -30
	cp "$work/orca" "$out/debug"
	exit 1
}
# says waits until Orca says a text.
says() {
	for ((i = 0; i < 300; i++)); do
		if heard "$1"; then
			echo "ok: $1"
			return
		fi
		sleep 0.1
	done
	missing "Orca does not say \"$1\""
}
# quiet fails if Orca has said a text since the line of its log that mark has noted.
mark() { marked=$(wc -l <"$work/orca"); }
quiet() {
	sleep 1
	if tail -n "+$((marked + 1))" "$work/orca" | grep -a 'SPEECH OUTPUT:' | grep -aiF "$1"; then
		from=$marked
		missing "Orca says \"$1\" again"
	fi
	echo "ok: not again: $1"
}
press() { for key; do xdotool key "$key"; sleep 0.3; done; } # as a person types: Orca drops keys that come faster
# to and back press Tab or Shift+Tab until Orca says a text. After each key, they wait until Orca is
# silent.
to() { move Tab "$1"; }
back() { move shift+Tab "$1"; }
move() {
	local key=$1 text=$2 before now quiet
	for ((n = 0; n < 90; n++)); do
		before=$(grep -ac 'SPEECH OUTPUT' "$work/orca")
		quiet=-10 # up to two seconds until it begins
		press "$key"
		while [ $quiet -lt 10 ]; do
			if heard "$text"; then
				echo "ok: $key to $text"
				return
			fi
			now=$(grep -ac 'SPEECH OUTPUT' "$work/orca")
			[ "$now" -gt "$before" ] && quiet=0 || quiet=$((quiet + 1))
			before=$now
			sleep 0.1
		done
	done
	missing "$key does not reach \"$text\""
}

says 'Screen reader on'
chromium --no-sandbox --disable-gpu --force-renderer-accessibility --no-first-run --password-store=basic --user-data-dir="$work/profile" \
	--window-size=1280,800 --window-position=0,0 "$url" >"$work/chromium.log" 2>&1 &
pids="$pids $!"
# Without a window manager, no program gives the window the focus.
xdotool search --sync --onlyvisible --class chromium windowfocus >/dev/null

echo '== Now: the page, the objects that need attention, and a change'
says 'Page has'
says 'Now heading level 1'
says '1 object needs attention'
printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"stuck","namespace":"default","finalizers":["example.com/cleanup"]}}' | "$kelson" kubectl create -f - >/dev/null
"$kelson" kubectl delete configmap stuck --wait=false >/dev/null
says '2 objects need attention'
to 'Skip to content'
to 'Namespace'
to 'Theme: auto'

echo '== Timeline: marks by keys, and as text'
to 'Timeline link'
press Return
says 'Timeline heading level 1'
to 'Fold gaps'
to 'Timeline of 3 objects'
press n
says 'Deployment default/web reconcile at'
says 'reconcile 1 of controller deploy succeeded'
press Down
says 'ConfigMap default/settings failed reconcile at'
says 'reconcile 1 of controller pods failed: create Pod worker: quota exceeded'
to 'marks as text'
press Return
to 'took 1.2 ms'

echo '== List: filter and rows'
back 'ConfigMap link'
press Return
says ' rows'
to 'Filter rows'
xdotool type --delay 150 sett
says '1 of '
press ctrl+a BackSpace
says ' rows'
to 'Objects'
move Down 'settings link'

echo '== Edit: what the server says about the text'
press Return
says 'settings heading level 1'
to 'Edit'
press Return
to 'Delete'
to 'YAML'
press x
says "Bad Request yaml: line"
press BackSpace
says 'No changes'
press shift+Tab
says 'Delete'
press Return
says 'Delete ConfigMap settings?'
says 'Cancel'
mark
press Escape
says 'Delete'
quiet 'No changes'
press slash
says 'Search for views'
press Escape
says 'Delete'
quiet 'No changes'
press Return
says 'Cancel'
press Tab
says 'Delete'
press Return
says 'settings: deleted'

from=1
said >"$out/said"
echo "all utterances: $out/said"
