package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/jsondecode"
	"kelson.dev/internal/tree"
)

// The client writes a status in one of three ways.
//
// An update is the cheapest: a merge patch costs kube-apiserver a quarter more, because it encodes
// the object, patches the text, and decodes it. However, an update replaces the whole status, and
// an object decoded into a Go type may have fewer fields than the stored one. The client sends an
// update only if it is equivalent to the patch:
//
//   - The kind is a custom resource: from an update of its status, a server takes only the status
//     (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#status-subresource).
//     Compiled-in types may behave differently. The client distinguishes them with a dry run of a
//     strategic merge patch, which custom resources don't support.
//   - The Go type has all fields of the status that was read. The decoder compares its input with
//     the type (see partial.go).
//   - No other manager has written to the status. managedFields show this, with limits: entries can
//     be removed, and the entry of an atomic list does not describe its items.
//   - The object is unchanged since it was read, according to its resourceVersion. The patch has
//     the same condition.
//
// Otherwise the client sends the merge patch, which does not touch fields that it does not name,
// but replaces lists.
//
// If the Go type lacks fields of items of lists in the status, the client reads the object as
// unstructured content and makes the changes there (see [tree.Rebase]), at the cost of an
// additional request. This happens after a rollback of an operator to a version that does not know
// all fields.

// StatusPatch is a JSON merge patch of a status, conditional on the object being unchanged since it
// was read. A client may send a different request with the same effect that keeps fields that the
// Go type lacks.
type StatusPatch struct {
	// Document is the patch, with a resourceVersion in its metadata.
	Document []byte
	// Before is the object as it was read, with its managedFields; nil if not known.
	Before Object
	// Old and New are the status before and after, in JSON.
	Old, New []byte
}

// Type returns the merge patch type.
func (StatusPatch) Type() types.PatchType { return types.MergePatchType }

// Data returns the document.
func (p StatusPatch) Data(Object) ([]byte, error) { return p.Document, nil }

// writeStatus sends a different request than a patch of the status, if that is cheaper or if the
// patch would lose fields. done is false if the caller must send the patch.
func (c *restClient) writeStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch,
	o WriteOptions) (done bool, err error) {
	switch losesStatus(obj, p) {
	case jsondecode.Whole:
		return c.replaceStatus(ctx, e, r, obj, p, o)
	case jsondecode.InMembers:
		return false, nil
	}
	return true, c.rebaseStatus(ctx, e, r, obj, p, o)
}

// rebaseStatus makes the changes of a patch in the status that the server has.
func (c *restClient) rebaseStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch,
	o WriteOptions) error {
	base, err := c.readWhole(ctx, e, r, obj, p)
	if err != nil {
		return err
	}
	version := versionIn(p.Document)
	if version != "" && version != base.GetResourceVersion() {
		return apierrors.NewConflict(e.resource.GroupResource(), obj.GetName(), errModified)
	}
	old, err := parseStatus(p.Old)
	if err != nil {
		return err
	}
	status, err := parseStatus(p.New)
	if err != nil {
		return err
	}
	// a conflict if the version differs
	steps := []Operation{{Op: "add", Path: "/metadata/resourceVersion", Value: base.GetResourceVersion()}}
	was, ok := base.Object[statusName]
	switch status = tree.Rebase(was, old, status); {
	case status != nil:
		steps = append(steps, Operation{Op: "add", Path: "/" + statusName, Value: status})
	case ok:
		steps = append(steps, Operation{Op: "remove", Path: "/" + statusName})
	}
	r.contentType = string(types.JSONPatchType)
	if r.body, err = JSONPatch(steps...).Data(obj); err != nil {
		return fmt.Errorf("patch status of %s %s: %w", e.kind.Kind, KeyOf(obj), err)
	}
	return c.exchangeIfKind(ctx, r, obj, e.kind, true, o.Given)
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// readWhole reads all fields that the server has. A client without the right to get the object
// sends a patch without changes, and the response contains the object.
func (c *restClient) readWhole(ctx context.Context, e endpoint, r request, obj Object,
	p StatusPatch) (*unstructured.Unstructured, error) {
	get, err := c.request(http.MethodGet, e, KeyOf(obj), "")
	if err != nil {
		return nil, err
	}
	whole := &unstructured.Unstructured{}
	err = c.exchange(ctx, get, whole, e.kind)
	if !apierrors.IsForbidden(err) {
		return whole, err
	}
	r.accept, r.body = jsonType, []byte("{}")
	if version := versionIn(p.Document); version != "" {
		r.body = fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, version)
	}
	return whole, c.exchange(ctx, r, whole, e.kind)
}

// parseStatus parses an encoded status into a tree.
func parseStatus(data []byte) (status any, err error) {
	p := tree.Parser{Data: data}
	if status, err = p.Value(); err != nil { // fall back to the decoder of apimachinery
		status = nil
		err = unmarshal(data, &status)
	}
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	return status, nil
}

// replaceStatus sends an update instead of a patch of a status, if both are equivalent. done is
// false if the caller must send the patch.
func (c *restClient) replaceStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch,
	o WriteOptions) (done bool, err error) {
	if c.off.Statuses {
		return false, nil
	}
	if _, builtin := builtinKind(obj); builtin || !p.isWhole(r.query.Get("fieldManager")) || !c.isCustom(ctx, e, r) {
		return false, nil
	}
	r.method, r.contentType = http.MethodPut, jsonType
	if r.body, err = p.update(e.kind); err != nil {
		return false, nil // the patch may still work
	}
	err = c.exchangeIfKind(ctx, r, obj, e.kind, true, o.Given)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err):
		c.custom.Store(e.kind, false)
		return false, nil
	// the error may be in a field that the patch does not touch
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return false, nil
	}
	return true, err
}

// isCustom reports whether a kind is known to be a custom resource. It asks the server once, unless
// Plain.IsCustom knows.
func (c *restClient) isCustom(ctx context.Context, e endpoint, r request) bool {
	if c.off.IsCustom != nil {
		return c.off.IsCustom(e.kind)
	}
	known, asked := c.custom.LoadOrStore(e.kind, false)
	if asked {
		return known.(bool)
	}
	r.contentType, r.body = string(types.StrategicMergePatchType), []byte("{}")
	r.query = WriteOptions{DryRun: true}.query()
	_, err := c.read(ctx, r)
	if apierrors.IsUnsupportedMediaType(err) {
		c.custom.Store(e.kind, true)
		return true
	}
	var status apierrors.APIStatus
	if err != nil && (!errors.As(err, &status) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) ||
		status.Status().Code >= http.StatusInternalServerError) {
		c.custom.Delete(e.kind) // inconclusive: ask again next time
	}
	return false
}

// isWhole reports whether an update loses nothing: Old has all fields of the status, and one
// manager owns them all.
func (p StatusPatch) isWhole(manager string) bool {
	if p.Before == nil || p.Before.GetResourceVersion() == "" || manager == "" {
		return false
	}
	if u, ok := p.Before.(*unstructured.Unstructured); ok {
		entries, _, _ := unstructured.NestedFieldNoCopy(u.Object, "metadata", "managedFields")
		list, _ := entries.([]any)
		for _, e := range list {
			e, _ := e.(map[string]any)
			fields, _ := e["fieldsV1"].(map[string]any)
			if fields[statusField] == nil {
				continue
			}
			if e["manager"] != manager || e["operation"] != string(metav1.ManagedFieldsOperationUpdate) ||
				!p.coversOld(fields) {
				return false
			}
		}
		return len(list) > 0
	}
	entries := p.Before.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"`+statusField+`"`)) {
			continue
		}
		fields, err := tree.Parse(e.FieldsV1.GetRawBytes(), nil)
		if err == nil && fields[statusField] == nil {
			continue // another field with that name
		}
		if err != nil || e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationUpdate ||
			!p.coversOld(fields) {
			return false
		}
	}
	return len(entries) > 0
}

const (
	statusName = "status"
	// statusField is the name of the status in managedFields.
	statusField = "f:status"
)

// coversOld reports whether the old status has all status fields of a set.
func (p StatusPatch) coversOld(fields map[string]any) bool {
	set, _ := fields[statusField].(map[string]any)
	old, err := tree.Parse(p.Old, nil)
	return err == nil && covers(old, set)
}

// update returns the document of an update of the status.
func (p StatusPatch) update(kind schema.GroupVersionKind) ([]byte, error) {
	data, err := tree.Append(nil, map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{
			"namespace": p.Before.GetNamespace(), "name": p.Before.GetName(), "uid": string(p.Before.GetUID()),
			"resourceVersion": p.Before.GetResourceVersion(),
		},
	}, nil)
	if err != nil || bytes.Equal(p.New, []byte("null")) {
		return data, err
	}
	data = append(data[:len(data)-1], `,"status":`...)
	return append(append(data, p.New...), '}'), nil
}
