package kubernetes_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

type evictions struct {
	*testing.T
	*apitest.Plane
}

func withEvictions(t *testing.T, test func(p evictions)) {
	synctest.Test(t, func(t *testing.T) {
		cp := startPlane(t, controlplane.Config{})
		test(evictions{t, &apitest.Plane{Client: &http.Client{Transport: cp.Transport()}}})
	})
}

func (p evictions) want(code int, method, path, body string, header ...string) apitest.Object {
	p.Helper()
	return p.Want(p.T, code, method, path, body, header...)
}

func (p evictions) budget(name, spec string) {
	p.Helper()
	p.want(201, "POST", budgets, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":%q},
		"spec":{"selector":{"matchLabels":{"app":"a"}},%s}}`, name, spec))
}

// pod creates a running, ready pod; owner is a JSON fragment and may be empty.
func (p evictions) pod(name, owner string) {
	p.Helper()
	p.want(201, "POST", ns+"/pods", fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"labels":{"app":"a"}%s},
		"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`, name, owner))
	p.ready(name, "True")
}

func (p evictions) ready(name, status string) {
	p.Helper()
	p.want(200, "PATCH", ns+"/pods/"+name+"/status",
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"`+status+`"}]}}`, merge)
}

// wantStatus checks a budget's healthy, desired, expected and allowed numbers.
func (p evictions) wantStatus(name, want string) {
	p.Helper()
	synctest.Wait()
	s := p.want(200, "GET", budgets+"/"+name, "")["status"]
	number := func(field string) any { return apitest.At(s, field) }
	got := fmt.Sprint(number("currentHealthy"), number("desiredHealthy"), number("expectedPods"),
		number("disruptionsAllowed"))
	if got != want {
		p.Errorf("%s: healthy, desired, expected, allowed: %s, want %s: %v", name, got, want, s)
	}
}

func (p evictions) evict(code int, name string) {
	p.Helper()
	p.want(code, "POST", ns+"/pods/"+name+"/eviction",
		fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, name))
}

// The status of a budget follows the healthy Pods, and evictions are allowed only within it.
func TestEvictionsRespectBudgets(t *testing.T) {
	withEvictions(t, func(p evictions) {
		p.budget("two", `"minAvailable":2`)
		p.wantStatus("two", "0 2 0 0")
		for _, name := range []string{"a", "b", "c"} {
			p.pod(name, "")
		}
		p.wantStatus("two", "3 2 3 1")
		p.ready("c", "False")
		p.wantStatus("two", "2 2 3 0")
		p.evict(429, "a")
		p.ready("c", "True")
		p.wantStatus("two", "3 2 3 1")
		p.evict(201, "a")
		p.evict(429, "b")
		p.want(200, "PATCH", budgets+"/two", `{"spec":{"minAvailable":1}}`, merge)
		synctest.Wait()
		p.evict(201, "b")
		p.evict(429, "c")
		p.want(200, "DELETE", budgets+"/two", "")
		p.evict(201, "c")
	})
}

// Percentages of a budget refer to the replicas of the Pods' controller, and follow its scale.
func TestBudgetsRelativeToReplicas(t *testing.T) {
	withEvictions(t, func(p evictions) {
		rs := p.want(201, "POST", "/apis/apps/v1/namespaces/default/replicasets", `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"r"},
			"spec":{"replicas":4,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
		owner := fmt.Sprintf(`,"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","controller":true,"uid":%q}]`, apitest.At(rs, "metadata", "uid"))
		p.budget("half", `"maxUnavailable":"50%"`)
		p.budget("most", `"minAvailable":"75%"`)
		for _, name := range []string{"a", "b", "c"} {
			p.pod(name, owner)
		}
		p.wantStatus("half", "3 2 4 1")
		p.wantStatus("most", "3 3 4 0")
		p.want(200, "PATCH", "/apis/apps/v1/namespaces/default/replicasets/r/scale", `{"spec":{"replicas":2}}`, merge)
		p.wantStatus("half", "3 1 2 2")
		// If a pod's controller is of an unknown kind, the budget allows no disruption.
		p.pod("d", `,"ownerReferences":[{"apiVersion":"example.com/v1","kind":"Thing","name":"t","controller":true,"uid":"u"}]`)
		synctest.Wait()
		s := p.want(200, "GET", budgets+"/half", "")
		if n, c := apitest.At(s, "status", "disruptionsAllowed"),
			fmt.Sprint(apitest.At(s, "status", "conditions")); fmt.Sprint(n) != "0" {
			p.Errorf("disruptionsAllowed is %v, want 0: %s", n, c)
		}
	})
}

// Events say why the status of a budget may surprise.
func TestEventsOfBudgets(t *testing.T) {
	withEvictions(t, func(p evictions) {
		p.budget("empty", `"minAvailable":1`)
		p.wantEvents("NoPods: No matching pods found")
		p.budget("half", `"maxUnavailable":"50%"`)
		p.pod("a", "")
		p.wantEvents(`MultiplePodDisruptionBudgets: Pod "default"/"a" matches multiple PodDisruptionBudgets.  Chose "empty" arbitrarily.`)
		p.wantEvents("NoPods: No matching pods found",
			`UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: `+
				`&LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. `+
				`As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. `+
				`To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.`)
		p.pod("b", `,"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","controller":true,"uid":"u"}]`)
		p.wantEvents(`CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: found no controllers for pod "b"`)
	})
}

// wantEvents checks that there are Events with these reasons and messages.
func (p evictions) wantEvents(want ...string) {
	p.Helper()
	synctest.Wait()
	var got []string
	items, _ := apitest.At(p.want(200, "GET", ns+"/events", ""), "items").([]any)
	for _, e := range items {
		got = append(got, fmt.Sprint(apitest.At(e, "reason"), ": ", apitest.At(e, "message")))
	}
	for _, each := range want {
		if !slices.Contains(got, each) {
			p.Errorf("Events %q, want %q", got, each)
		}
	}
}

// An evicted pod that is not deleted counts as healthy again after two minutes.
func TestDisruptionExpires(t *testing.T) {
	withEvictions(t, func(p evictions) {
		p.budget("one", `"minAvailable":1`)
		p.pod("a", "")
		p.pod("b", "")
		p.wantStatus("one", "2 1 2 1")
		p.want(200, "PATCH", budgets+"/one/status",
			fmt.Sprintf(`{"status":{"disruptionsAllowed":0,"disruptedPods":{"a":%q}}}`,
				time.Now().UTC().Format(time.RFC3339)), merge)
		p.wantStatus("one", "1 1 2 0")
		time.Sleep(2*time.Minute + time.Second)
		p.wantStatus("one", "2 1 2 1")
		p.wantEvents("NotDeleted: Pod was expected by PDB default/one to be deleted but it wasn't")
	})
}

// A pod that an eviction marked and did not delete loses the mark after two minutes.
func TestDisruptionTargetExpires(t *testing.T) {
	withEvictions(t, func(p evictions) {
		p.pod("kept", "")
		p.pod("gone", "")
		mark := `{"status":{"conditions":[{"type":"Ready","status":"True"},
			{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","lastTransitionTime":"` + time.Now().UTC().Format(time.RFC3339) + `"}]}}`
		for _, name := range []string{"kept", "gone"} {
			p.want(200, "PATCH", ns+"/pods/"+name+"/status", mark, merge)
		}
		p.want(200, "DELETE", ns+"/pods/gone", "")
		state := func(name string) string {
			p.Helper()
			synctest.Wait()
			conditions, _ := apitest.At(p.want(200, "GET", ns+"/pods/"+name, ""), "status", "conditions").([]any)
			for _, c := range conditions {
				if apitest.At(c, "type") == "DisruptionTarget" {
					return fmt.Sprint(apitest.At(c, "status"), " ", apitest.At(c, "reason"))
				}
			}
			return ""
		}
		time.Sleep(119 * time.Second)
		assert.Equalf(p, state("kept"), "True EvictionByEvictionAPI", "after 119 s")
		time.Sleep(2 * time.Second)
		assert.Equalf(p, state("kept"), "False <nil>", "after 121 s")
		assert.Equalf(p, state("gone"), "True EvictionByEvictionAPI", "a pod that is being deleted")
	})
}
