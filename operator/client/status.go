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

	"kelson.dev/operator/internal/structs"
	"kelson.dev/operator/tree"
)

// A status is written in one of three ways.
//
// An update is the cheapest: kube-apiserver needs a quarter more for a merge patch, because it encodes the object, patches the text, and decodes it. An
// update says the status as a whole, though, and an object as a Go type knows it may have less than there is. It is sent where both come to the same:
//
//   - The kind is a custom resource: of an update of its status a server takes the status, and nothing else that the document has or has not
//     (https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#status-subresource). Types that are compiled into a
//     server may do otherwise. These take strategic merge patches and custom resources do not, which is how they are told apart, with a dry run.
//   - All of the status that was read is in the Go type, and is written again. The decoder compares what it reads with the type (see partial.go).
//   - Nobody else has written to the status. managedFields tell, though not everything: entries can be edited away, and a list that is owned as a
//     whole does not say what is in it.
//   - The object is as it was read, which its resourceVersion says. The patch has the same condition.
//
// Otherwise the merge patch is sent. It leaves alone what it does not name, but it replaces lists.
//
// If the status has lists of which the Go type lacks something, the client reads the object again, as unstructured content, and makes the changes there (see
// [tree.Rebase]). That costs one more request. It happens under an operator that was rolled back to a version which does not know all fields.

// StatusPatch is a JSON merge patch of a status, on the condition that the object is as it was read. A client may send another request in its place that
// has the same effect and loses nothing that the Go type lacks.
type StatusPatch struct {
	// Document is the patch, with a resourceVersion in its metadata.
	Document []byte
	// Before is the object as it was read, with its managedFields; nil if that is not known.
	Before Object
	// Old and New are its status, before and after, in JSON.
	Old, New []byte
}

// Type is that of a merge patch.
func (StatusPatch) Type() types.PatchType { return types.MergePatchType }

// Data is the document.
func (p StatusPatch) Data(Object) ([]byte, error) { return p.Document, nil }

// writeStatus sends another request than a patch of a status, if that is cheaper, or if the patch would lose something. done is false if the patch has
// to be sent.
func (c *restClient) writeStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch, o WriteOptions) (done bool, err error) {
	switch losesStatus(obj, p) {
	case structs.Whole:
		return c.replaceStatus(ctx, e, r, obj, p, o)
	case structs.InMembers:
		return false, nil
	}
	return true, c.rebaseStatus(ctx, e, r, obj, p, o)
}

// rebaseStatus makes the changes of a patch in the status as the server has it.
func (c *restClient) rebaseStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch, o WriteOptions) error {
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
	steps := []Operation{{Op: "add", Path: "/metadata/resourceVersion", Value: base.GetResourceVersion()}} // another one is a conflict
	was, there := base.Object[statusName]
	switch status = tree.Rebase(was, old, status); {
	case status != nil:
		steps = append(steps, Operation{Op: "add", Path: "/" + statusName, Value: status})
	case there:
		steps = append(steps, Operation{Op: "remove", Path: "/" + statusName})
	}
	r.contentType = string(types.JSONPatchType)
	if r.body, err = JSONPatch(steps...).Data(obj); err != nil {
		return fmt.Errorf("patch status of %s %s: %w", e.kind.Kind, KeyOf(obj), err)
	}
	return c.exchangeIfKind(ctx, r, obj, e.kind, true, o.Given)
}

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// readWhole reads an object with all that the server has. A client without the right to get it sends a patch that changes nothing, which is answered with
// the object.
func (c *restClient) readWhole(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch) (*unstructured.Unstructured, error) {
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

// parseStatus reads an encoded status as a tree.
func parseStatus(data []byte) (status any, err error) {
	p := tree.Parser{Data: data}
	if status, err = p.Value(); err != nil { // unusual
		status = nil
		err = unmarshal(data, &status)
	}
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	return status, nil
}

// replaceStatus sends an update for a patch of a status, if both come to the same. It is not done if the patch has to be sent.
func (c *restClient) replaceStatus(ctx context.Context, e endpoint, r request, obj Object, p StatusPatch, o WriteOptions) (done bool, err error) {
	if _, builtin := builtinKind(obj); builtin || !p.isWhole(r.query.Get("fieldManager")) || !c.isCustom(ctx, e, r) {
		return false, nil
	}
	r.method, r.contentType = http.MethodPut, jsonType
	if r.body, err = p.update(e.kind); err != nil {
		return false, nil // the patch can do without
	}
	err = c.exchangeIfKind(ctx, r, obj, e.kind, true, o.Given)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err), apierrors.IsUnsupportedMediaType(err):
		c.custom.Store(e.kind, false)
		return false, nil
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err): // what is wrong need not be what the patch changes
		return false, nil
	}
	return true, err
}

// isCustom says that a kind is a custom resource, as far as is known: it asks once.
func (c *restClient) isCustom(ctx context.Context, e endpoint, r request) bool {
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
	if err != nil && (!errors.As(err, &status) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || status.Status().Code >= http.StatusInternalServerError) {
		c.custom.Delete(e.kind) // this said nothing: it is asked again
	}
	return false
}

// isWhole says that an update loses nothing: that all the fields of the status are in Old, and those of one manager.
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
			if e["manager"] != manager || e["operation"] != string(metav1.ManagedFieldsOperationUpdate) || !p.coversOld(fields) {
				return false
			}
		}
		return len(list) > 0
	}
	entries := p.Before.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || !bytes.Contains(e.FieldsV1.Raw, []byte(`"`+statusField+`"`)) {
			continue
		}
		fields, err := tree.Parse(e.FieldsV1.Raw, nil)
		if err == nil && fields[statusField] == nil {
			continue // it is of another field of that name
		}
		if err != nil || e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationUpdate || !p.coversOld(fields) {
			return false
		}
	}
	return len(entries) > 0
}

const (
	statusName = "status"
	// statusField is how managedFields name the status.
	statusField = "f:status"
)

// coversOld says that the old status has all of the fields that a set has below the status.
func (p StatusPatch) coversOld(fields map[string]any) bool {
	set, _ := fields[statusField].(map[string]any)
	old, err := tree.Parse(p.Old, nil)
	return err == nil && covers(old, set)
}

// update is the document of an update of the status.
func (p StatusPatch) update(kind schema.GroupVersionKind) ([]byte, error) {
	data, err := tree.Append(nil, map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind,
		"metadata": map[string]any{
			"namespace": p.Before.GetNamespace(), "name": p.Before.GetName(), "uid": string(p.Before.GetUID()), "resourceVersion": p.Before.GetResourceVersion(),
		},
	}, nil)
	if err != nil || bytes.Equal(p.New, []byte("null")) {
		return data, err
	}
	data = append(data[:len(data)-1], `,"status":`...)
	return append(append(data, p.New...), '}'), nil
}
