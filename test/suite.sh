# Sourced by scripts that run other projects' test suites on this control plane. Before that, the
# script must set root, the folder of this repository, and work, an existing folder for output.
#
# It sets scratch, a folder that is removed at the end, and exports KUBEBUILDER_ASSETS, a folder
# with kube-apiserver, etcd and kubectl, which are all the kelson binary (bin/kelson or $KELSON).

. "$root/test/section.sh"

# The folder belongs to this run, so its path identifies servers that a suite has left running.
scratch=$(mktemp -d "$work/run.XXXXXX")
KUBEBUILDER_ASSETS=$scratch/bin
export KUBEBUILDER_ASSETS
mkdir "$KUBEBUILDER_ASSETS"
cp "${KELSON:-$root/bin/kelson}" "$scratch/kelson"
"$scratch/kelson" envtest "$KUBEBUILDER_ASSETS" >/dev/null
end_servers() { for pid in $(pgrep -f "^$KUBEBUILDER_ASSETS/"); do kill "$pid" || true; done; }
trap 'end_servers; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

# turn COMMAND... runs a command. If $TURN is set, it names a program that waits for its turn and
# then runs the command. If $LOCK is set, it names a file that is locked while the command runs.
turn() {
	if [ -n "${TURN:-}" ]; then
		"$TURN" "$@"
	elif [ -n "${LOCK:-}" ]; then
		flock "$LOCK" "$@"
	else
		"$@"
	fi
}

# run_suites FOLDER PACKAGE... tests packages of the module in a folder. It prints a table of the
# results, writes its rows to $scratch/rows and the output to $work/PACKAGE.log, and sets failed to
# 1 if a test failed. The script defines test_package BINARY PACKAGE, which runs a compiled test.
run_suites() {
	folder=$1 failed=0
	shift
	: >"$scratch/rows"
	echo '| package | passed | failed | skipped | seconds |'
	echo '|---|--:|--:|--:|--:|'
	for package in "$@"; do
		name=$(echo "$package" | tr / -)
		log=$work/$name.log
		cd "$folder"
		if ! turn go test -c -o "$work/$name.test" "./$package" >"$log" 2>&1; then
			echo "| $package | 0 | 1 (does not build: see $log) | 0 | 0 |" | tee -a "$scratch/rows"
			failed=1
			continue
		fi
		cd "$package"
		begin=$(date +%s)
		code=0
		test_package "$work/$name.test" "$package" >"$log" 2>&1 || code=$?
		seconds=$(($(date +%s) - begin))
		awk -v package="$package" -v code="$code" -v seconds="$seconds" -f "$root/test/controller-runtime/count.awk" "$log" \
			>"$scratch/row" || failed=1
		tee -a "$scratch/rows" <"$scratch/row"
		end_servers
	done
}

# table prints the rows and their sum as a table, without the seconds.
table() {
	printf '| package | passed | failed | skipped |\n|---|--:|--:|--:|\n'
	awk -F ' *\\| *' '{ printf "| %s | %s | %s | %s |\n", $2, $3, $4, $5; p += $3; f += $4; s += $5 }
		END { printf "| all | %d | %d | %d |\n", p, f, s }' "$scratch/rows"
}

# timed_table prints the rows and their sum as a table, with the seconds.
timed_table() {
	printf '| package | passed | failed | skipped | seconds |\n|---|--:|--:|--:|--:|\n'
	cat "$scratch/rows"
	awk -F '|' '{ p += $3; f += $4; s += $5; t += $6 } END { printf "| all | %d | %d | %d | %d |\n", p, f, s, t }' "$scratch/rows"
}
