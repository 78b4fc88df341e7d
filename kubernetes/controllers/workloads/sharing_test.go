package workloads

import (
	"maps"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/kubernetes/controllers/sharing"
)

// Objects with one owner share equal labels and owner references, and nothing that differs.
func TestSharing(t *testing.T) {
	pod := func(name, owner, hash string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels:        map[string]string{"app": "web", "hash": hash},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{*ownerOf(owner)}
			p.OwnerReferences[0].UID += "-of-" + p.OwnerReferences[0].UID
		}
		return p
	}
	var parts sharing.Parts
	trim := func(p *corev1.Pod) *corev1.Pod {
		want := p.DeepCopy()
		want.ManagedFields = nil
		for range 2 { // informers may call it again for an object
			trimmed, err := parts.Trim(p)
			if err != nil || trimmed != p || !reflect.DeepEqual(p, want) {
				t.Fatalf("%v: %+v, want %+v", err, trimmed, want)
			}
		}
		return p
	}
	shares := func(a, b *corev1.Pod) (labels, owners bool) {
		return reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer(),
			len(a.OwnerReferences) > 0 && len(b.OwnerReferences) > 0 && &a.OwnerReferences[0] == &b.OwnerReferences[0]
	}
	first := trim(pod("a", "web", "1"))
	if labels, owners := shares(first, trim(pod("b", "web", "1"))); !labels || !owners {
		t.Error("equal pods of an owner share: ", labels, owners)
	}
	changed := trim(pod("c", "web", "2"))
	if labels, owners := shares(first, changed); labels || owners {
		t.Error("pods with other labels share: ", labels, owners)
	}
	if labels, _ := shares(changed, trim(pod("d", "web", "2"))); !labels {
		t.Error("pods with the new labels do not share")
	}
	orphan := trim(pod("e", "", "1"))
	if labels, owners := shares(orphan, trim(pod("f", "", "1"))); labels || owners {
		t.Error("pods without an owner share: ", labels, owners)
	}
	if !maps.Equal(first.Labels, map[string]string{"app": "web", "hash": "1"}) {
		t.Error(first.Labels)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "default/a", Obj: first}
	if got, err := parts.Trim(tombstone); err != nil || got != any(tombstone) {
		t.Error(got, err)
	}
}
