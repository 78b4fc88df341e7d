package explore

import "testing"

// Digests runs a plan several times and returns what identifies each run.
func Digests(t *testing.T, s Scenario, text string, runs int) (digests map[[32]byte][]string) {
	plan, err := ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newExplorer(t, s)
	if err != nil {
		t.Fatal(err)
	}
	digests = map[[32]byte][]string{}
	for range runs {
		r := e.run(plan)
		digests[r.digest] = r.steps
	}
	return digests
}
