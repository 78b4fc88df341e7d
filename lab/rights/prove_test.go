package rights_test

import (
	"context"
	"errors"
	"go/token"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kelson.dev/lab/rights"
	"kelson.dev/toolchain/gen/rbac"
)

var (
	getPods  = rights.Request{Verb: "get", Resource: "pods"}
	listPods = rights.Request{Verb: "list", Resource: "pods"}
	metrics  = rights.Request{Verb: "get", URL: "/metrics"}
)

// Prove reports a permission that a run needs as shown, one that it does not need as not shown, and
// roles that are not sufficient as an error.
func TestProve(t *testing.T) {
	var sent []rights.Request
	runs := 0
	run := func(_ context.Context, roles []rbac.Role, all bool) ([]rights.Request, error) {
		if first := runs == 0; all != first {
			t.Errorf("run %d: all is %v", runs, all)
		}
		runs++
		return rights.Compare(sent, roles, nil).Missing, nil
	}
	sent = []rights.Request{getPods, metrics}
	p, err := rights.Prove(t.Context(), "r", []rights.Request{getPods, listPods, metrics}, run, nil)
	if err != nil || len(p.Refused) > 0 || !slices.Equal(p.Shown, []rights.Request{getPods, metrics}) ||
		!slices.Equal(p.NotShown, []rights.Request{listPods}) {
		t.Errorf("%+v, %v", p, err)
	}
	if runs != 4 {
		t.Errorf("%d runs, want one under the role and one without each of three permissions", runs)
	}
	runs = 0
	if p, err = rights.Prove(t.Context(), "r", []rights.Request{getPods}, run, nil); err != nil ||
		!slices.Equal(p.Refused, []rights.Request{metrics}) || runs != 1 {
		t.Errorf("insufficient roles: %+v, %v after %d runs", p, err, runs)
	}
	broken := errors.New("broken")
	if _, err = rights.Prove(t.Context(), "r", nil, func(context.Context, []rbac.Role, bool) ([]rights.Request, error) {
		return nil, broken
	}, nil); !errors.Is(err, broken) {
		t.Errorf("a run that fails: %v", err)
	}
}

func TestGeneral(t *testing.T) {
	in := func(r rights.Request, namespace string) rights.Request { r.Namespace = namespace; return r }
	declared := []rbac.Declaration{{Namespace: "system", Rule: rbacv1.PolicyRule{}}, {}}
	got := rights.General([]rights.Request{in(getPods, "a"), in(getPods, "b"), in(getPods, "system"), metrics},
		declared)
	if want := []rights.Request{metrics, getPods, in(getPods, "system")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
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
