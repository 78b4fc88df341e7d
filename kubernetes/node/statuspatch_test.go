package node

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kelson.dev/internal/randomtest"
)

// The patches of agents are those of Kubernetes' library, for random changes of statuses.
func TestStatusPatchIsTheLibrarys(t *testing.T) {
	seed := randomtest.Seed(t)
	g := statuses{rand.New(rand.NewPCG(uint64(seed), 1))}
	direct, equal := 0, 0
	for i := range 3000 {
		from := g.status()
		to := g.changed(from)
		want, err := computedChanges(from, to)
		if err != nil {
			t.Fatal(err)
		}
		fields, ok := statusChanges(&from, &to)
		if !ok {
			continue
		}
		direct++
		if len(fields) == 0 {
			equal++
			if want != nil {
				t.Fatalf("%d: no change, want %v", i, want)
			}
			continue
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		var have any
		if err := json.Unmarshal(text, &have); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("%d: patch %s\nwant %s\nfrom %s\nto   %s",
				i, text, encoded(t, want), encoded(t, from), encoded(t, to))
		}
	}
	t.Logf("%d of 3000 changes were direct, %d of them without a difference", direct, equal)
	if direct < 1000 || equal == 0 || direct == 3000 {
		t.Errorf("%d of 3000 changes were direct, %d without a difference; want most of them, and some", direct, equal)
	}
}

func encoded(t *testing.T, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// statuses generates statuses and changes of them.
type statuses struct{ *rand.Rand }

func (g statuses) some() bool { return g.IntN(3) == 0 }

func (g statuses) text() string { return []string{"", "a", "b"}[g.IntN(3)] }

func (g statuses) time() metav1.Time {
	return metav1.NewTime(time.Unix(1_800_000_000+int64(g.IntN(3)), int64(g.IntN(2))).UTC())
}

func (g statuses) status() (s corev1.PodStatus) {
	for range 3 {
		s = g.changed(s)
	}
	return s
}

// changed returns a copy of a status in which some fields differ.
func (g statuses) changed(s corev1.PodStatus) corev1.PodStatus {
	s = *s.DeepCopy()
	if g.some() {
		s.ObservedGeneration = int64(g.IntN(3))
	}
	for _, field := range []*string{(*string)(&s.Phase), &s.Message, &s.Reason, &s.HostIP, &s.PodIP} {
		if g.some() {
			*field = g.text()
		}
	}
	if g.some() {
		at := g.time()
		s.StartTime = &at
	}
	if g.IntN(30) == 0 {
		s.StartTime = nil
	}
	if g.IntN(30) == 0 {
		s.NominatedNodeName = g.text()
	}
	if g.IntN(4) == 0 || len(s.PodIPs) == 0 && g.some() {
		s.PodIPs, s.HostIPs = []corev1.PodIP{{IP: "10.0.0.1"}}, []corev1.HostIP{{IP: "10.0.0.2"}}
	}
	if g.IntN(30) == 0 {
		s.PodIPs = []corev1.PodIP{{IP: "10.0.0.3"}}
	}
	lists := []*[]corev1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses}
	for _, list := range lists {
		if g.some() {
			*list = g.containers()
		}
	}
	g.conditions(&s)
	return s
}

func (g statuses) containers() (list []corev1.ContainerStatus) {
	for i := range g.IntN(3) {
		c := corev1.ContainerStatus{Name: fmt.Sprint("c", i), Image: g.text(), RestartCount: int32(g.IntN(2))}
		if g.some() {
			c.State.Running = &corev1.ContainerStateRunning{StartedAt: g.time()}
		}
		list = append(list, c)
	}
	return list
}

func (g statuses) conditions(s *corev1.PodStatus) {
	for _, kind := range []corev1.PodConditionType{"Ready", "Initialized", "PodScheduled"} {
		if g.some() {
			status := []corev1.ConditionStatus{"True", "False"}[g.IntN(2)]
			setPodCondition(s, corev1.PodCondition{Type: kind, Status: status,
				Reason: g.text(), Message: g.text(), ObservedGeneration: int64(g.IntN(2))}, g.time().Time)
		}
	}
	if len(s.Conditions) > 1 && g.IntN(10) == 0 {
		s.Conditions[0], s.Conditions[1] = s.Conditions[1], s.Conditions[0]
	}
	if len(s.Conditions) > 1 && g.IntN(30) == 0 {
		s.Conditions = s.Conditions[1:]
	}
}
