# Sourced by scripts of suites, for their section of docs/internals/conformance.md. The script must set root, suite, and scratch, a folder.

# section FILE replaces the section of the suite in docs/internals/conformance.md by the file, or appends it.
section() {
	docs=$root/docs/internals/conformance.md
	awk -v suite="$suite" -v file="$1" '
		function put() { while ((getline line < file) > 0) print line; done = 1 }
		index($0, "<!-- " suite ": ") == 1 { put(); skip = 1 }
		!skip { print }
		index($0, "<!-- end of " suite " -->") == 1 { skip = 0 }
		END { if (!done) { print ""; put() } }
	' "$docs" >"$scratch/docs"
	cat "$scratch/docs" >"$docs"
}
