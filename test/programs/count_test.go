package main

import (
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// The most test programs that the repository may have. Each takes a second to link and start, and
// several if it links Kubernetes. Before you raise a number, move the tests into the program of the
// folder above, or let them use operatortest rather than testenv. Lower it when make count allows.
const (
	mostPrograms   = 119
	mostKubernetes = 21
)

func TestCountOfPrograms(t *testing.T) {
	require.Long(t, "lists the dependencies of all packages")
	t.Chdir("../..")
	patterns := strings.Fields("./... ./apiserver/... ./operator/... ./operator/adapter/... ./examples/...") // TESTED
	c, err := count(patterns)
	require.NoError(t, err)
	if !slices.Contains(c.programs, "kelson.dev/test/programs") ||
		!slices.Contains(c.kubernetes, "kelson.dev/cmd/kelson") ||
		slices.Contains(c.kubernetes, "kelson.dev/test/programs") ||
		slices.Contains(c.onlyTests, "kelson.dev/cmd/kelson") {
		t.Fatalf("the count is wrong: %+v", c)
	}
	if len(c.programs) > mostPrograms {
		t.Errorf("there are %d test programs, more than %d", len(c.programs), mostPrograms)
	}
	if len(c.kubernetes) > mostKubernetes {
		t.Errorf("%d test programs link packages of k8s.io/kubernetes, more than %d: make count lists them",
			len(c.kubernetes), mostKubernetes)
	}
}
