package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// single serves all requests except lists and watches. The caller holds the lock.
func (c *call) single() {
	old := c.objects[c.kind.Resource][c.key]
	if old == nil && c.name != "" && c.r.Method != http.MethodPatch {
		c.notFound()
		return
	}
	if c.r.Method == http.MethodGet {
		reply(c.w, http.StatusOK, c.render(old))
		return
	}
	data, err := io.ReadAll(c.r.Body)
	if err != nil {
		panic(err)
	}
	body := map[string]any{}
	if c.r.Header.Get("Content-Type") != "application/json-patch+json" && len(data) > 0 {
		if err := utiljson.Unmarshal(data, &body); err != nil {
			fail(c.w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
			return
		}
	}
	dryRun := c.r.URL.Query().Get("dryRun") != ""
	switch c.r.Method {
	case http.MethodPost:
		c.create(&unstructured.Unstructured{Object: body}, dryRun)
	case http.MethodPut:
		c.update(old, &unstructured.Unstructured{Object: body}, dryRun)
	case http.MethodPatch:
		c.patch(old, body, dryRun)
	case http.MethodDelete:
		c.delete(old, body)
	}
}

func (c *call) create(obj *unstructured.Unstructured, dryRun bool) {
	// for example a binding or an eviction: the object changes, and the response does not contain
	// it
	if c.sub != "" {
		now := c.objects[c.kind.Resource][c.key].DeepCopy()
		_ = unstructured.SetNestedField(now.Object, "done", "metadata", "annotations", c.sub)
		c.record("MODIFIED", c.kind.Resource, c.objects[c.kind.Resource][c.key], now)
		s := status(http.StatusCreated, "", "")
		s.Status = metav1.StatusSuccess
		reply(c.w, http.StatusCreated, s)
		return
	}
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), c.uids))
	}
	key := types.NamespacedName{Namespace: c.namespace, Name: obj.GetName()}
	if c.objects[c.kind.Resource][key] != nil {
		fail(c.w, http.StatusConflict, metav1.StatusReasonAlreadyExists,
			fmt.Sprintf("%s %q already exists", c.kind.Resource, key.Name))
		return
	}
	c.uids++
	obj.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
	obj.SetNamespace(c.namespace)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()))
	if !dryRun {
		c.record("ADDED", c.kind.Resource, nil, obj)
	}
	reply(c.w, http.StatusCreated, obj.Object)
}

func (c *call) update(old, obj *unstructured.Unstructured, dryRun bool) {
	if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		fail(c.w, http.StatusConflict, metav1.StatusReasonConflict,
			fmt.Sprintf("Operation cannot be fulfilled on %s %q: "+
				"the object has been modified; please apply your changes to the latest version and try again",
				c.kind.Resource, c.name))
		return
	}
	if c.sub == "status" {
		next := old.DeepCopy()
		next.Object["status"] = obj.Object["status"]
		obj = next
	}
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	switch {
	case dryRun:
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0:
		// the response is the object of the request
		obj.SetResourceVersion(old.GetResourceVersion())
		c.record("DELETED", c.kind.Resource, old, obj.DeepCopy())
	default:
		obj.SetResourceVersion(old.GetResourceVersion())
		// a write without changes has no effect
		if a, b := mustMarshal(old.Object), mustMarshal(obj.Object); a != b {
			c.record("MODIFIED", c.kind.Resource, old, obj)
		}
	}
	reply(c.w, http.StatusOK, c.render(obj))
}

func (c *call) patch(old *unstructured.Unstructured, patch map[string]any, dryRun bool) {
	if old == nil {
		if c.r.Header.Get("Content-Type") != string(types.ApplyPatchType) {
			c.notFound()
			return
		}
		c.create(&unstructured.Unstructured{Object: patch}, dryRun)
		return
	}
	obj := &unstructured.Unstructured{Object: merge(old.DeepCopy().Object, patch)}
	c.update(old, obj, dryRun)
}

// merge implements RFC 7386.
func merge(to, patch map[string]any) map[string]any {
	for k, v := range patch {
		sub, isMap := v.(map[string]any)
		switch {
		case v == nil:
			delete(to, k)
		case isMap:
			inner, _ := to[k].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
			}
			to[k] = merge(inner, sub)
		default:
			to[k] = v
		}
	}
	return to
}

func (c *call) delete(old *unstructured.Unstructured, options map[string]any) {
	if c.name == "" {
		items := []any{}
		for _, obj := range c.sorted() {
			items = append(items, c.render(obj))
			c.remove(obj)
		}
		reply(c.w, http.StatusOK, map[string]any{"kind": c.kind.Kind + "List",
			"apiVersion": c.kind.GroupVersion().String(),
			"metadata":   map[string]any{}, "items": items})
		return
	}
	if uid, _, _ := unstructured.NestedString(options, "preconditions", "uid"); uid != "" &&
		uid != string(old.GetUID()) {
		fail(c.w, http.StatusConflict, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: "+uid)
		return
	}
	if now, held := c.remove(old); held || c.kind.Kind == "Pod" {
		reply(c.w, http.StatusOK, c.render(now))
		return
	}
	s := status(http.StatusOK, "", "")
	s.Status = metav1.StatusSuccess
	s.Details = &metav1.StatusDetails{Name: c.name, Kind: c.kind.Resource, UID: old.GetUID()}
	reply(c.w, http.StatusOK, s)
}

// remove deletes an object, or sets its deletionTimestamp if it has finalizers. The caller holds
// the lock.
func (c *call) remove(old *unstructured.Unstructured) (now *unstructured.Unstructured, held bool) {
	now = old.DeepCopy()
	if len(old.GetFinalizers()) == 0 {
		c.record("DELETED", c.kind.Resource, old, now)
		return now, false
	}
	if old.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(time.Now())
		now.SetDeletionTimestamp(&at)
		c.record("MODIFIED", c.kind.Resource, old, now)
	}
	return now, true
}

// sorted returns the objects that the call selects, ordered by key. The caller holds the lock.
func (c *call) sorted() []*unstructured.Unstructured {
	var objs []*unstructured.Unstructured
	for _, obj := range c.objects[c.kind.Resource] {
		if c.matches(obj) {
			objs = append(objs, obj)
		}
	}
	sort.Slice(objs, func(a, b int) bool {
		return objs[a].GetNamespace()+"/"+objs[a].GetName() < objs[b].GetNamespace()+"/"+objs[b].GetName()
	})
	return objs
}

// list reads each page from the newest state, not from a snapshot. It rejects tokens from before a
// Compact.
func (c *call) list() {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.r.URL.Query()
	objs, version, next := c.sorted(), c.revision, ""
	if token := q.Get("continue"); token != "" {
		v, after, _ := strings.Cut(token, " ")
		version = c.revisionOf(v)
		if version < c.compacted {
			fail(c.w, http.StatusGone, metav1.StatusReasonExpired, "The provided continue parameter is too old")
			return
		}
		objs = objs[sort.Search(len(objs), func(n int) bool {
			return objs[n].GetNamespace()+"/"+objs[n].GetName() > after
		}):]
	}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(objs) > limit {
		objs = objs[:limit]
		next = fmt.Sprintf("%d %s/%s", version, objs[limit-1].GetNamespace(), objs[limit-1].GetName())
	}
	items := []any{}
	for _, obj := range objs {
		item := c.render(obj)
		delete(item, "kind") // as servers do for typed kinds
		delete(item, "apiVersion")
		items = append(items, item)
	}
	kind, apiVersion := c.kind.Kind+"List", c.kind.GroupVersion().String()
	if c.metadataOnly {
		kind, apiVersion = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	reply(c.w, http.StatusOK, map[string]any{"kind": kind, "apiVersion": apiVersion, "items": items,
		"metadata": map[string]any{"resourceVersion": c.version(version), "continue": next}})
}

// render returns a shallow copy of the object in the form that the call requests: all of it, or its
// metadata.
func (c *call) render(obj *unstructured.Unstructured) map[string]any {
	if c.metadataOnly {
		return map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
			"metadata": obj.Object["metadata"]}
	}
	shown := map[string]any{}
	for k, v := range obj.Object {
		shown[k] = v
	}
	return shown
}

func mustMarshal(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
