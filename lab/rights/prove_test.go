package rights_test

import (
	"context"
	"errors"
	"go/token"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
)

var (
	getPods  = rights.Request{Verb: "get", Resource: "pods"}
	listPods = rights.Request{Verb: "list", Resource: "pods"}
	metrics  = rights.Request{Verb: "get", URL: "/metrics"}
)

// One run under the computed roles proves the permissions that the operator uses again. The others
// are tried together: those whose requests are then refused are needed, and so is one that only
// some runs need.
func TestProve(t *testing.T) {
	nodes := rights.Request{Verb: "list", Resource: "nodes"}
	sent := [][]rights.Request{{getPods, metrics}}
	runs := 0
	run := func(_ context.Context, roles []rbac.Role, all bool) (rights.Run, error) {
		assert.Equalf(t, all, runs == 0, "run %d: all", runs)
		now := sent[min(runs, len(sent)-1)]
		runs++
		return rights.Run{Requests: now, Refused: rights.Compare(now, roles, nil).Missing}, nil
	}
	prove := func(requests ...rights.Request) (rights.Proof, error) {
		t.Helper()
		runs = 0
		p, err := rights.Prove(t.Context(), "r", requests, nil, run, nil)
		if err == nil && p.Runs != runs {
			t.Errorf("the proof has %d runs, want %d", p.Runs, runs)
		}
		return p, err
	}
	if p, err := prove(getPods, metrics); err != nil || len(p.NotShown) > 0 || len(p.Shown) != 2 || runs != 1 {
		t.Errorf("all used: %+v, %v after %d runs", p, err, runs)
	}
	if p, err := prove(getPods, listPods, metrics, nodes); err != nil || len(p.Refused) > 0 ||
		!slices.Equal(p.Shown, []rights.Request{metrics, getPods}) ||
		!slices.Equal(p.NotShown, []rights.Request{nodes, listPods}) || runs != 2 {
		t.Errorf("two unused: %+v, %v after %d runs", p, err, runs)
	}
	sent = [][]rights.Request{{getPods, metrics}, {getPods, metrics, nodes}, {getPods, metrics}}
	if p, err := prove(getPods, listPods, metrics, nodes); err != nil ||
		!slices.Equal(p.Shown, []rights.Request{metrics, nodes, getPods}) ||
		!slices.Equal(p.NotShown, []rights.Request{listPods}) || runs != 3 {
		t.Errorf("one is sometimes used: %+v, %v after %d runs", p, err, runs)
	}
	sent = [][]rights.Request{{getPods, metrics}}
	if p, err := prove(getPods); err != nil || !slices.Equal(p.Refused, []rights.Request{metrics}) || runs != 1 {
		t.Errorf("insufficient roles: %+v, %v after %d runs", p, err, runs)
	}
	inSystem := getPods
	inSystem.Namespace = "system"
	sent = [][]rights.Request{{getPods, inSystem}}
	if p, err := prove(getPods, inSystem); err != nil || !slices.Equal(p.Shown, []rights.Request{getPods}) ||
		!slices.Equal(p.NotShown, []rights.Request{inSystem}) || runs != 1 {
		t.Errorf("a permission that another one implies: %+v, %v after %d runs", p, err, runs)
	}
	broken := errors.New("broken")
	_, err := rights.Prove(t.Context(), "r", nil, nil, func(context.Context, []rbac.Role, bool) (rights.Run, error) {
		return rights.Run{}, broken
	}, nil)
	assert.ErrorIsf(t, err, broken, "a run that fails")
}

func TestGeneral(t *testing.T) {
	in := func(r rights.Request, namespace string) rights.Request { r.Namespace = namespace; return r }
	declared := []rbac.Declaration{{Namespace: "system", Rule: rbacv1.PolicyRule{}}, {}}
	got := rights.General([]rights.Request{in(getPods, "a"), in(getPods, "b"), in(getPods, "system"), metrics},
		declared)
	assert.Slice(t, got, []rights.Request{metrics, getPods, in(getPods, "system")})
}

func TestNear(t *testing.T) {
	at := func(line int, group, resource string) rbac.Declaration {
		return rbac.Declaration{Pos: token.Position{Filename: "c.go", Line: line},
			Rule: rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}}}
	}
	declared := []rbac.Declaration{at(1, "", "pods"), at(2, "", "secrets"), at(3, "apps", "deployments")}
	for _, test := range []struct {
		request rights.Request
		want    int
	}{
		{rights.Request{Verb: "create", Resource: "pods/eviction"}, 1},
		{rights.Request{Verb: "get", Resource: "configmaps"}, 2},
		{rights.Request{Verb: "get", Group: "batch", Resource: "jobs"}, 3},
		{metrics, 3},
	} {
		if near, ok := rights.Near(declared, test.request); !ok || near.Line != test.want {
			t.Errorf("%v: line %d, want %d", test.request, near.Line, test.want)
		}
	}
	if _, ok := rights.Near(nil, getPods); ok {
		t.Error("a position without markers")
	}
}
