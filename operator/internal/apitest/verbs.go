package apitest

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *call) get() answer {
	if obj := c.objects[c.kind.resource()][c.key]; obj != nil {
		return ok(c.render(obj))
	}
	return c.notFound()
}

// list reads each page from the newest state, not from a snapshot. It rejects tokens from before a
// Compact.
func (c *call) list() answer {
	q := c.r.URL.Query()
	objs, revision, next := c.selected(), c.revision, ""
	if token := q.Get("continue"); token != "" {
		v, after, _ := strings.Cut(token, " ")
		if revision = c.revisionOf(v); revision < c.compacted {
			return fail(apierrors.NewResourceExpired("The provided continue parameter is too old"))
		}
		objs = slices.DeleteFunc(objs, func(obj *unstructured.Unstructured) bool { return keyOf(obj).String() <= after })
	}
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 && len(objs) > limit {
		objs = objs[:limit]
		next = fmt.Sprintf("%d %s", revision, keyOf(objs[limit-1]))
	}
	items := []any{}
	for _, obj := range objs {
		item := c.render(obj)
		delete(item, "kind") // as servers do for typed kinds
		delete(item, "apiVersion")
		items = append(items, item)
	}
	list := Object{"kind": c.kind.Kind + "List", "apiVersion": c.kind.GroupVersion().String(), "items": items,
		"metadata": Object{"resourceVersion": c.version(revision), "continue": next}}
	if c.metadataOnly {
		list["kind"], list["apiVersion"] = "PartialObjectMetadataList", "meta.k8s.io/v1"
	}
	return ok(list)
}

// write serves the requests that change objects.
func (c *call) write() answer {
	old := c.objects[c.kind.resource()][c.key]
	if old == nil && c.key.Name != "" && c.r.Method != http.MethodPatch {
		return c.notFound()
	}
	obj := &unstructured.Unstructured{Object: Object{}}
	if c.r.Header.Get("Content-Type") != string(types.JSONPatchType) && len(c.data) > 0 {
		if err := utiljson.Unmarshal(c.data, &obj.Object); err != nil {
			return fail(apierrors.NewBadRequest(err.Error()))
		}
	}
	switch {
	case c.r.Method == http.MethodPost && c.sub != "":
		return c.act(old)
	case c.r.Method == http.MethodPost:
		return c.create(obj)
	case c.r.Method == http.MethodPut && old != nil:
		return c.update(old, obj)
	case c.r.Method == http.MethodPatch && old != nil:
		return c.update(old, &unstructured.Unstructured{Object: merge(old.DeepCopy().Object, obj.Object)})
	case c.r.Method == http.MethodPatch && c.r.Header.Get("Content-Type") == string(types.ApplyPatchType):
		obj.SetName(c.key.Name)
		return c.create(obj)
	case c.r.Method == http.MethodPatch:
		return c.notFound()
	case c.r.Method == http.MethodDelete && old != nil:
		return c.delete(old, obj.Object)
	case c.r.Method == http.MethodDelete:
		return c.deleteCollection()
	}
	return fail(apierrors.NewMethodNotSupported(c.kind.resource(), c.r.Method))
}

// act serves a binding or an eviction: the object changes, and the response does not contain it.
func (c *call) act(old *unstructured.Unstructured) answer {
	now := old.DeepCopy()
	_ = unstructured.SetNestedField(now.Object, "done", "metadata", "annotations", c.sub)
	c.record("MODIFIED", old, now)
	return answer{code: http.StatusCreated,
		body: status(metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})}
}

func (c *call) create(obj *unstructured.Unstructured) answer {
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(fmt.Sprintf("%s%05d", obj.GetGenerateName(), c.uids))
	}
	if obj.GetName() == "" {
		return fail(apierrors.NewInvalid(c.kind.GroupKind(), "",
			field.ErrorList{field.Required(field.NewPath("metadata", "name"), "name or generateName is required")}))
	}
	obj.SetNamespace(c.key.Namespace)
	if c.objects[c.kind.resource()][keyOf(obj)] != nil {
		return fail(apierrors.NewAlreadyExists(c.kind.resource(), obj.GetName()))
	}
	c.uids++
	obj.SetUID(types.UID(fmt.Sprintf("uid-%d", c.uids)))
	obj.SetGeneration(1)
	obj.SetCreationTimestamp(metav1.NewTime(time.Now()))
	c.record("ADDED", nil, obj)
	return answer{code: http.StatusCreated, body: c.render(obj)}
}

func (c *call) update(old, obj *unstructured.Unstructured) answer {
	if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return fail(apierrors.NewConflict(c.kind.resource(), c.key.Name, errors.New(
			"the object has been modified; please apply your changes to the latest version and try again")))
	}
	if c.sub == "status" {
		next := old.DeepCopy()
		if next.Object["status"] = obj.Object["status"]; obj.Object["status"] == nil {
			delete(next.Object, "status")
		}
		obj = next
	}
	obj.SetNamespace(old.GetNamespace())
	obj.SetName(old.GetName())
	obj.SetUID(old.GetUID())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.SetGeneration(old.GetGeneration())
	if !reflect.DeepEqual(old.Object["spec"], obj.Object["spec"]) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}
	switch {
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0:
		// the response is the object of the request
		c.record("DELETED", old, obj.DeepCopy())
	case !reflect.DeepEqual(old.Object, obj.Object): // a write without changes has no effect
		c.record("MODIFIED", old, obj)
	}
	return ok(c.render(obj))
}

// merge implements RFC 7386.
func merge(to, patch Object) Object {
	for k, v := range patch {
		sub, isMap := v.(Object)
		switch {
		case v == nil:
			delete(to, k)
		case isMap:
			inner, _ := to[k].(Object)
			if inner == nil {
				inner = Object{}
			}
			to[k] = merge(inner, sub)
		default:
			to[k] = v
		}
	}
	return to
}

func (c *call) deleteCollection() answer {
	items := []any{}
	for _, obj := range c.selected() {
		items = append(items, c.render(obj))
		c.remove(obj)
	}
	return ok(Object{"kind": c.kind.Kind + "List", "apiVersion": c.kind.GroupVersion().String(),
		"metadata": Object{}, "items": items})
}

func (c *call) delete(old *unstructured.Unstructured, options Object) answer {
	for name, has := range map[string]string{"uid": string(old.GetUID()), "resourceVersion": old.GetResourceVersion()} {
		if want, _, _ := unstructured.NestedString(options, "preconditions", name); want != "" && want != has {
			return fail(apierrors.NewConflict(c.kind.resource(), c.key.Name, fmt.Errorf(
				"the %s in the precondition (%s) does not match the %[1]s in record (%s). "+
					"The object might have been deleted and then recreated", name, want, has)))
		}
	}
	if now, held := c.remove(old); held || c.kind.Kind == "Pod" {
		return ok(c.render(now))
	}
	return ok(status(metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK,
		Details: &metav1.StatusDetails{Name: c.key.Name, Group: c.kind.Group, Kind: c.kind.Plural, UID: old.GetUID()}}))
}

// remove deletes an object, or sets its deletionTimestamp if it has finalizers.
func (c *call) remove(old *unstructured.Unstructured) (now *unstructured.Unstructured, held bool) {
	now = old.DeepCopy()
	if len(old.GetFinalizers()) == 0 {
		c.record("DELETED", old, now)
		return now, false
	}
	if old.GetDeletionTimestamp() == nil {
		now.SetDeletionTimestamp(new(metav1.NewTime(time.Now())))
		c.record("MODIFIED", old, now)
	}
	return now, true
}

// record records a change, which may be a deletion, unless the call is a dry run. It sets the
// version of obj, which nothing may change any more.
func (c *call) record(kind string, old, obj *unstructured.Unstructured) {
	if c.dryRun {
		return
	}
	c.revision++
	obj.SetResourceVersion(c.version(c.revision))
	resource := c.kind.resource()
	if c.objects[resource] == nil {
		c.objects[resource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	if kind == "DELETED" {
		delete(c.objects[resource], keyOf(obj))
	} else {
		c.objects[resource][keyOf(obj)] = obj
	}
	c.log = append(c.log, change{c.revision, resource, kind, obj, old})
	close(c.changed)
	c.changed = make(chan struct{})
}
