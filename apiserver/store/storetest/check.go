package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	apitypes "k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
)

func types(uid string) apitypes.UID { return apitypes.UID(uid) }

// Check verifies the invariants of a Snapshot: keys are in order, objects and their heads agree
// with their bytes, revisions are unique and not newer than the snapshot, and counts and indexes
// agree with the objects.
func Check(t testing.TB, sn *store.Snapshot) {
	t.Helper()
	check(t, sn, false)
}

// check implements Check. If the objects of a unit share one revision, revisions may repeat.
func check(t testing.TB, sn *store.Snapshot, units bool) {
	t.Helper()
	revisions := map[uint64]store.Key{}
	dependents := map[apitypes.UID][]*store.Object{}
	last := ""
	for resource := range sn.Resources() {
		if resource <= last {
			t.Errorf("resource %s after %s", resource, last)
		}
		last = resource
		n, previous := 0, store.Key{}
		for obj := range sn.Scan(resource, "", store.Key{}) {
			n++
			if obj.Key.Resource != resource || compare(previous, obj.Key) >= 0 {
				t.Errorf("%v after %v in the scan of %s", obj.Key, previous, resource)
			}
			previous = obj.Key
			if other, twice := revisions[obj.Revision]; twice && !units || obj.Revision > sn.Revision() ||
				obj.Created > obj.Revision || obj.Created == 0 {
				t.Errorf("%v has revision %d, created %d, in a snapshot at %d, besides %v", obj.Key, obj.Revision,
					obj.Created, sn.Revision(), other)
			}
			revisions[obj.Revision] = obj.Key
			checkData(t, obj)
			if sn.Get(obj.Key) != obj {
				t.Errorf("get %v and the scan return different objects", obj.Key)
			}
			if uid := obj.Head.UID; uid != "" && sn.ByUID(uid) != obj {
				t.Errorf("%v is not found by its uid", obj.Key)
			}
			for _, o := range obj.Head.Owners {
				if !slices.Contains(dependents[o.UID], obj) && o.UID != "" {
					dependents[o.UID] = append(dependents[o.UID], obj)
				}
			}
		}
		if n == 0 || n != sn.Count(resource, "") {
			t.Errorf("%d %s, counted %d", n, resource, sn.Count(resource, ""))
		}
	}
	for uid, want := range dependents {
		if got := slices.Collect(sn.Dependents(uid)); !slices.Equal(got, want) {
			t.Errorf("dependents of %s: %v, want %v", uid, got, want)
		}
	}
}

// compare has the order of Kubernetes' keys in etcd.
func compare(a, b store.Key) int {
	return slices.Compare([]string{a.Resource, a.Namespace + "/" + a.Name},
		[]string{b.Resource, b.Namespace + "/" + b.Name})
}

// decoded has the fields of the tests' objects.
type decoded struct {
	Metadata struct {
		ResourceVersion string
		UID             apitypes.UID
		OwnerReferences []struct{ UID apitypes.UID }
	}
	Payload string
}

func decode(t testing.TB, obj *store.Object) (d decoded) {
	t.Helper()
	if err := json.Unmarshal(obj.Data, &d); err != nil {
		t.Errorf("%v: %v in %s", obj.Key, err, obj.Data)
	}
	return d
}

func payload(t testing.TB, obj *store.Object) string {
	t.Helper()
	if obj == nil {
		t.Error("no object")
		return ""
	}
	return decode(t, obj).Payload
}

// checkData compares an object's bytes with its revision and head.
func checkData(t testing.TB, obj *store.Object) {
	t.Helper()
	d := decode(t, obj)
	if want := strconv.FormatUint(obj.Revision, 10); d.Metadata.ResourceVersion != want {
		t.Errorf("%v has resourceVersion %s, want %s", obj.Key, d.Metadata.ResourceVersion, want)
	}
	if d.Metadata.UID != obj.Head.UID || len(d.Metadata.OwnerReferences) != len(obj.Head.Owners) {
		t.Errorf("%v has head %+v, metadata %+v", obj.Key, obj.Head, d.Metadata)
	}
}

// contents returns a snapshot as text.
func contents(sn *store.Snapshot) string {
	var b strings.Builder
	for resource := range sn.Resources() {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			fmt.Fprintf(&b, "%v@%d,%d %s\n", obj.Key, obj.Revision, obj.Created, obj.Data)
		}
	}
	return b.String()
}
