# To be sourced by a suite's script, for its section of docs/internals/conformance.md. The script has set root, suite, and scratch, a folder.

# section FILE puts the file in the place of the suite's section of docs/internals/conformance.md, or at its end.
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
