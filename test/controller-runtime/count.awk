# Counts the results in the output of a compiled test: the specs of Ginkgo suites, and the Go tests that have no subtests and run no
# suite. Prints a row of a table; the exit code is 1 if something failed, be it only the whole.
$1 == "===" { current = $3 }
/^Running Suite: / { suite[current] = 1 }
/^ *--- (PASS|FAIL|SKIP): / {
	result[$3] = $2
	for (parent = $3; sub("/[^/]*$", "", parent);) has[parent] = 1
}
# SUCCESS! -- 5 Passed | 0 Failed | 2 Pending | 0 Skipped
/^(SUCCESS|FAIL)! -- / { passed += $3; failed += $6; skipped += $9 + $12 }
END {
	for (test in result) {
		if (test in has || test in suite) continue
		if (result[test] == "PASS:") passed++
		else if (result[test] == "FAIL:") failed++
		else skipped++
	}
	note = code != 0 && failed == 0 ? " (exit code " code ")" : ""
	printf "| %s | %d | %d%s | %d | %d |\n", package, passed, failed, note, skipped, seconds
	exit code != 0 || failed > 0
}
