package now

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/console/internal/inventory"
	"kelson.dev/console/internal/traces"
	"kelson.dev/internal/assert"
	"kelson.dev/lab/diagnosis"
	"kelson.dev/operator/client"
)

// If everything fails at once, a state has the number of objects and some of each cause: none
// disappears behind many others.
func TestManyProblems(t *testing.T) {
	var snapshot inventory.Snapshot
	for i := range 2 * maxItems {
		phase := "Failed"
		if i%4 == 0 {
			phase = "Pending"
		}
		snapshot.Objects = append(snapshot.Objects,
			&inventory.Object{Resource: "pods", Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p", i),
				UID: fmt.Sprint(i), Phase: phase, Replicas: -1})
	}
	snapshot.Objects = append(snapshot.Objects, &inventory.Object{Resource: "claims", Kind: "Claim",
		Namespace: "default", Name: "lost", UID: "lost", Phase: "Lost", Replicas: -1})
	state := find(snapshot, traces.New(nil), "", time.Now())
	if len(state.Items) != 2*perCause+1 || state.Total != 2*maxItems+1 || state.Bad != maxItems*3/2+1 {
		t.Errorf("%d items of %d, %d bad", len(state.Items), state.Total, state.Bad)
	}
	if !slices.ContainsFunc(state.Items, func(i Item) bool { return i.Name == "lost" }) {
		t.Error("the one different problem is missing")
	}
	more := 0
	for _, i := range state.Items {
		more += i.More
	}
	if more+len(state.Items) != state.Total {
		t.Errorf("%d items and %d more of %d", len(state.Items), more, state.Total)
	}
}

// With more causes than items, each item has a cause of its own.
func TestManyCauses(t *testing.T) {
	var snapshot inventory.Snapshot
	for i := range maxItems + 10 {
		for j := range 3 {
			kind := strings.Repeat("K", i+1) // not a number, which causes ignore
			snapshot.Objects = append(snapshot.Objects,
				&inventory.Object{Kind: kind, Name: fmt.Sprint("x", j), UID: fmt.Sprint(i, "/", j), Phase: "Failed",
					Replicas: -1})
		}
	}
	state := find(snapshot, traces.New(nil), "", time.Now())
	kinds := map[string]bool{}
	for _, i := range state.Items {
		kinds[i.Kind] = true
	}
	if len(state.Items) != maxItems || len(kinds) != maxItems {
		t.Errorf("%d items of %d kinds", len(state.Items), len(kinds))
	}
}

// The problems of the pods of a Deployment are one line of its item, without the conditions and
// Events that only repeat them.
func TestProblemsOfPodsAreOneOfTheirDeployment(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	old := now.Add(-time.Minute)
	const message = "0/100 nodes are available: 100 Insufficient cpu."
	var snapshot inventory.Snapshot
	for d := range 8 {
		name := fmt.Sprint("web", d)
		deployment := &inventory.Object{Resource: "deployments.apps", Kind: "Deployment", Namespace: "default",
			Name: name, UID: name, Replicas: 20, Ready: 0, Conditions: []diagnosis.Condition{
				{Type: "Available", Status: "False", Reason: "MinimumReplicasUnavailable", Since: old},
			}}
		set := &inventory.Object{Resource: "replicasets.apps", Kind: "ReplicaSet", Namespace: "default",
			Name: name + "-x", UID: name + "-x", Replicas: 20, Ready: 0,
			Owners: []inventory.Owner{{Kind: "Deployment", Name: name, UID: name, Controller: true}}}
		snapshot.Objects = append(snapshot.Objects, deployment, set)
		for i := range 20 {
			pod := fmt.Sprint(name, "-x-", i)
			snapshot.Objects = append(snapshot.Objects,
				&inventory.Object{Resource: "pods", Kind: "Pod", Namespace: "default", Name: pod, UID: pod,
					Phase: "Pending", Replicas: -1,
					Owners: []inventory.Owner{{Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: true}},
					Conditions: []diagnosis.Condition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
						Message: message, Since: old}}})
			snapshot.Events = append(snapshot.Events,
				inventory.Event{UID: pod, Time: old, Type: "Warning", Reason: "FailedScheduling", Message: message,
					Kind: "Pod", Namespace: "default", Name: pod})
		}
	}
	state := find(snapshot, traces.New(nil), "", now)
	if state.Total != 8 || len(state.Items) != 8 {
		t.Fatalf("%d items of %d", len(state.Items), state.Total)
	}
	for _, i := range state.Items {
		if len(i.Problems) != 1 || i.Problems[0].Objects != 20 || !strings.Contains(i.Problems[0].Text, message) ||
			!i.Problems[0].Time.Equal(old) {
			t.Errorf("%s: %+v", i.Object, i.Problems)
		}
	}
}

// A namespace that stays is listed with what keeps it; a Job that a user creates from a CronJob is
// not a problem.
func TestNamespacesAndJobs(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	deleted := now.Add(-time.Minute)
	namespace := &inventory.Object{Kind: "Namespace", Name: "shop", UID: "shop", Deleted: &deleted,
		Finalizers: []string{"kubernetes"}, Replicas: -1, Conditions: []diagnosis.Condition{
			{Type: "NamespaceDeletionContentFailure", Status: "False"},
			{Type: "NamespaceFinalizersRemaining", Status: "True",
				Message: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"},
		}}
	state := find(inventory.Snapshot{
		Objects: []*inventory.Object{namespace, {Kind: "CronJob", Name: "backup", UID: "backup", Replicas: -1}},
		Events: []inventory.Event{{UID: "e", Time: now, Type: "Warning", Reason: "UnexpectedJob",
			Message: "Saw a job that the controller did not create or forgot: manual", Kind: "CronJob",
			Name: "backup"}},
	}, traces.New(nil), "", now)
	if len(state.Items) != 1 || len(state.Items[0].Problems) != 1 ||
		!strings.Contains(state.Items[0].Problems[0].Text, "example.com/hold in 1") {
		t.Errorf("%+v", state.Items)
	}
}

// A fact stands once, although the conditions of an owner and of what it owns, and several Events,
// state it. Facts that differ in a name stay.
func TestFactsStandOnce(t *testing.T) {
	now := time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
	old := now.Add(-time.Minute)
	const denied = ` is forbidden: exceeded quota: few, used: pods=1, limited: pods=1`
	failure := []diagnosis.Condition{{Type: "ReplicaFailure", Status: "True", Reason: "FailedCreate",
		Message: `pods "many-a"` + denied, Since: old}}
	owner := []inventory.Owner{{Kind: "Deployment", Name: "many", UID: "many", Controller: true}}
	event := func(uid, message string) inventory.Event {
		return inventory.Event{UID: uid, Time: old, Type: "Warning", Reason: "FailedCreate", Message: message,
			Kind: "ReplicaSet", Namespace: "small", Name: "many-x"}
	}
	job := []diagnosis.Condition{
		{Type: "FailureTarget", Status: "True", Reason: "BackoffLimitExceeded",
			Message: "Job has reached the specified backoff limit", Since: old},
		{Type: "Failed", Status: "True", Reason: "BackoffLimitExceeded",
			Message: "Job has reached the specified backoff limit", Since: old},
	}
	state := find(inventory.Snapshot{
		Objects: []*inventory.Object{
			{Resource: "deployments.apps", Kind: "Deployment", Namespace: "small", Name: "many", UID: "many",
				Replicas: -1, Conditions: failure},
			{Resource: "replicasets.apps", Kind: "ReplicaSet", Namespace: "small", Name: "many-x", UID: "many-x",
				Replicas: -1, Conditions: failure, Owners: owner},
			{Resource: "jobs.batch", Kind: "Job", Namespace: "small", Name: "migrate", UID: "migrate", Replicas: -1,
				Conditions: job},
			{Resource: "pods", Kind: "Pod", Namespace: "small", Name: "two", UID: "two", Replicas: -1,
				Containers: []inventory.Container{{Name: "a", Text: `a: CreateContainerConfigError: secret "a" not found`},
					{Name: "b", Text: `b: CreateContainerConfigError: secret "b" not found`}}},
		},
		Events: []inventory.Event{event("1", `Error creating: pods "many-b"`+denied),
			event("2", `(combined from similar events): Error creating: pods "many-c"`+denied)},
	}, traces.New(nil), "", now)
	want := map[string]int{"many": 1, "migrate": 1, "two": 2}
	for _, i := range state.Items {
		if len(i.Problems) != want[i.Name] {
			t.Errorf("%s: %d problems: %+v", i.Object, len(i.Problems), i.Problems)
		}
		delete(want, i.Name)
	}
	if len(want) > 0 {
		t.Errorf("no items: %v", want)
	}
}

// A container that crashes has the last line of its log, once it is read. It is read once per run
// of the container, and again after the next run.
func TestLastLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads []string
		lines := newLastLines(func(_ context.Context, pod client.Key, container string, previous bool) ([]string, error) {
			reads = append(reads, fmt.Sprint(pod, " ", container, " ", previous))
			return []string{"first", "cannot open /etc/app.yaml", " "}, nil
		})
		show := func(c inventory.Container) Problem {
			o := &inventory.Object{Resource: "pods", Kind: "Pod", Namespace: "default", Name: "p", UID: "1",
				Replicas: -1, Containers: []inventory.Container{c}}
			state := find(inventory.Snapshot{Objects: []*inventory.Object{o}}, traces.New(nil), "", time.Now())
			lines.fill(t.Context(), state.Items)
			return state.Items[0].Problems[0]
		}
		crashed := inventory.Container{Name: "app", Text: "app crashes", Restarts: 1, Ended: true, Previous: true}
		changed := lines.Changed()
		p := show(crashed)
		assert.Equalf(t, p.Log, "", "a line that is not read yet: %+v", p)
		<-changed
		for range 3 {
			p := show(crashed)
			assert.Equalf(t, p.Log, "cannot open /etc/app.yaml", "%+v", p)
		}
		crashed.Restarts++
		show(crashed)
		show(inventory.Container{Name: "app", Text: "app: ErrImagePull"})
		synctest.Wait()
		assert.Slice(t, reads, []string{"default/p app true", "default/p app true"})
		assert.Equalf(t, len(lines.known), 0, "lines of runs that no page shows: %v", lines.known)
	})
}
